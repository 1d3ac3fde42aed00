SELECT k, -n ^ 2 AS a, -2 ^ 2 AS b, 2 ^ 3 ^ 2 AS c, 2 ** 3 ** 2 AS d, - n ** 2 AS e FROM plays WHERE k < 40
;;
SELECT k, NOT n = 3 AS a, NOT ok IS NULL AS b, (NOT ok) IS NULL AS c, NOT n BETWEEN 1 AND 5 AND ok AS d, NOT n IN (1, 2) OR ok AS e FROM plays
;;
SELECT k, 'a' || n + 1 || 'b' AS c FROM plays WHERE k < 20
;;
SELECT k, 'a' || (n + 1) || 'b' AS c, usr || '-' || song, usr || NULL FROM plays WHERE k BETWEEN 3 AND 30
;;
SELECT id, id & 6 | 1 << 2 AS x, id >> 1, ~id, ~id & 15, xor(id, 5), ~ ~id, -(~id), ~(-id) FROM nums WHERE id >= 0
;;
SELECT id, id // 4, id % 4, id / 4, -id // 4, -id % 4, id // 4 * 4 + id % 4 = id AS same FROM nums
;;
SELECT id, @id, @ id - 1, @(id - 1), abs(id), -(@id), @(-id) FROM nums
;;
SELECT usr FROM users WHERE name ~ '^.*n.*$' OR usr !~ 'u1.?'
;;
SELECT k, usr ~~ 'u1%' AS a, usr !~~ 'u1%' AS b, usr ~~* 'U_' AS c, usr !~~* 'U_' AS d, usr ~~~ 'u[0-3]' AS e FROM plays
;;
SELECT usr, usr SIMILAR TO 'u(1|2)+' AS a, usr NOT SIMILAR TO 'u[0-9]' AS b, usr GLOB 'u?' AS c, NOT usr GLOB 'u?' AS d FROM users
;;
SELECT '10%' LIKE '10\%' ESCAPE '\' AS a, '10%' LIKE '10$%' ESCAPE '$' AS b, '1_0' NOT LIKE '1!_0' ESCAPE '!' AS c, 'AB_C' ILIKE 'ab#_c' ESCAPE '#' AS d, 'x' NOT ILIKE 'X' AS e, count(*) FROM plays
;;
SELECT count(*) FROM plays WHERE n BETWEEN -10 AND 10 AND ok OR NOT n BETWEEN 20 AND 30 AND NOT ok
;;
SELECT k FROM plays WHERE n NOT BETWEEN -10 AND 10 + 5 AND k BETWEEN 10 + 1 AND 100 OR k IN (1, 2, NULL)
;;
SELECT 1 < 2 < 3
;;
SELECT k FROM plays WHERE 1 < k < 3
;;
SELECT k, n IS DISTINCT FROM 3 AS a, n IS NOT DISTINCT FROM NULL AS b, NOT n IS DISTINCT FROM k AS c, (usr IS DISTINCT FROM song) = ok AS d FROM plays
;;
SELECT k, 'a' IN tags AS a, 'a' NOT IN tags AS b, n IN (k, k + 1, -1) AS c, (usr, song) IN (('u1', 's1'), ('u2', 's2')) AS d FROM plays
;;
SELECT id, 1 IN l, id IN l, 3 IN (1, 2), NULL IN l, id NOT IN [1, 2, 3] FROM nums
;;
SELECT k, n::VARCHAR::INTEGER::DOUBLE::DECIMAL(10, 3)::VARCHAR AS c, price::DECIMAL(6, 1)::DOUBLE AS d, (-n)::VARCHAR AS e FROM plays WHERE price < 900 AND k < 10
;;
SELECT k, (-n)::VARCHAR AS e, -(n::DOUBLE) AS f, -n::DOUBLE AS g, - 1::TINYINT AS h, -128::SMALLINT AS i FROM plays WHERE k < 12
;;
SELECT -128::TINYINT AS x
;;
SELECT TRY_CAST(usr AS INTEGER), TRY_CAST(substr(usr, 2) AS TINYINT), TRY_CAST('300' AS UTINYINT), TRY_CAST(-1 AS UBIGINT), TRY_CAST('2024-02-30' AS DATE), TRY_CAST('[1, 2' AS INT[]) FROM users
;;
SELECT k, CASE WHEN n > 0 THEN 1 WHEN n < 0 THEN 2.5 END AS a, CASE n WHEN 1 THEN 'one' WHEN 2 THEN 'two' ELSE usr END AS b, CASE WHEN ok THEN NULL ELSE 1::UTINYINT END AS c, typeof(CASE WHEN n > 0 THEN 1 WHEN n < 0 THEN 2.5 END) FROM plays
;;
SELECT k, CASE NULL WHEN NULL THEN 1 ELSE 2 END, CASE ok WHEN n > 0 THEN 'same' WHEN NOT ok THEN 'neg' END, CASE WHEN CASE WHEN ok THEN n END IS NULL THEN 'n' ELSE CASE n % 2 WHEN 0 THEN 'e' ELSE 'o' END END FROM plays
;;
SELECT k, COALESCE(n, k), COALESCE(NULL, price, n), NULLIF(n, 0), NULLIF(k % 3, 0), IFNULL(usr, 'none'), IF(ok, n, -1), typeof(COALESCE(price, n)), typeof(NULLIF(n, k)), typeof(IFNULL(n, 1.5)) FROM plays
;;
SELECT 0xFF AS hex, 1 AS one
;;
SELECT 1_000_000, 1_0.5_0, 1e3, 1E-3, .5, 5., 1.e2, typeof(1_000), typeof(1e3), typeof(.5), typeof(5.), typeof(1.50)
;;
SELECT 2147483647, 2147483648, 9223372036854775807, 9223372036854775808, -9223372036854775808, -9223372036854775809, 170141183460469231731687303715884105727, typeof(2147483648), typeof(9223372036854775808), typeof(-9223372036854775808), typeof(-2147483648)
;;
SELECT 340282366920938463463374607431768211455 AS u, typeof(340282366920938463463374607431768211455) AS t, typeof(340282366920938463463374607431768211456) AS t2
;;
SELECT 12345678901234567890.12345678901234567 AS d, typeof(12345678901234567890.12345678901234567) AS t, 0.1234567890123456789012345678901234567890123 AS e, typeof(0.1234567890123456789012345678901234567890123) AS f, 1.10 + 2.200 AS g, typeof(1.10 + 2.200)
;;
SELECT E'a\nb\t\\ \' \x41 \u00e9 \101' AS e, length(E'a\nb') AS l, 'a\nb' AS raw, 'it''s' AS q, E'it''s' AS r, '' AS empty
;;
SELECT $$it's $1 "raw" \n$$ AS a, $tag$ $$ nested $$ $tag$ AS b, $$$$ AS c, length($$--not a comment$$) AS d
;;
SELECT 'foo'
'bar' AS x, 'a'
   -- between
   'b' AS y
;;
SELECT 'foo' 'bar' AS x
;;
SELECT U&'d\0061t\+000061' AS u
;;
SELECT '\xAA\x00bc'::BLOB AS a, 'abc'::BLOB || '\xFF'::BLOB AS b, octet_length('\x00\x01'::BLOB) AS c, BLOB 'q\x27' AS d, typeof(x'0aff') AS e, x'0aff' AS f
;;
SELECT DATE '2024-02-29', TIMESTAMP '2024-05-01 01:02:03.456789', TIMESTAMPTZ '2024-05-01 00:00:00+02', TIME '12:34:56.7', TIMESTAMP WITH TIME ZONE '2024-05-01 00:00:00-03:30', TIMESTAMP WITHOUT TIME ZONE '2024-05-01', '2024-5-1'::DATE, 'epoch'::DATE, 'infinity'::TIMESTAMP, '-infinity'::DATE
;;
SELECT INTERVAL 1 DAY, INTERVAL '1' DAY, INTERVAL '1 day 2 hours', INTERVAL (1 + 1) MONTH
;;
SELECT INTERVAL 1 YEAR, INTERVAL 3 quarters, INTERVAL 2 weeks, INTERVAL 5 decades, INTERVAL 1 century, INTERVAL 1 millennium, INTERVAL 90 MINUTES, INTERVAL 1500 milliseconds, INTERVAL 7 microseconds, INTERVAL '-3' hours, INTERVAL '1.5' DAY, INTERVAL 1.5 HOURS
;;
SELECT INTERVAL '1 year 2 months 3 days 04:05:06.789' AS a, '3 days ago'::INTERVAL AS b, INTERVAL '01:02:03' AS c
;;
SELECT INTERVAL '1 year -2 months 3 days -04:05:06.789' AS a, -INTERVAL 3 DAY AS b, INTERVAL (-3) DAY AS c, INTERVAL 1 DAY * 3 AS e, 2 * INTERVAL '1 month' AS f, INTERVAL '1 month' / 2 AS g
;;
SELECT k, "at" + INTERVAL (n) DAY AS a, "at" - INTERVAL (k % 5) HOURS AS b, day + INTERVAL 1 MONTH AS c, day + 1 AS d, day - DATE '2024-05-01' AS e, "at" - day AS f, typeof(day + INTERVAL 1 MONTH), typeof(day + 1), typeof(day - day) FROM plays
;;
SELECT [1, 2, NULL], ARRAY[1, 2], [], [[]], [[1], NULL, []], ARRAY[[1], [2, 3]], ['a', NULL], [1, 2.5], {'a': 1, 'b': [1]}, MAP {'k': 1, 'l': NULL}, MAP {}, MAP([1, 2], ['a', 'b']), ROW(1, 'a'), (1, 'a')
;;
SELECT typeof([1, 2.5]), typeof([]), typeof([NULL]), typeof([[]]), typeof({'a': 1, 'B c': NULL}), typeof(MAP {1: 'a'}), typeof(MAP {}), typeof(row(1, 'a')), typeof((1, 2.0)), typeof([1, 2]::INT[2]), typeof(NULL), typeof('a'), typeof(INTERVAL 1 DAY), typeof(DATE '2024-01-01')
;;
SELECT {a: 1, "b c": 2, 'd': {e: n}} AS st, {'a': n}.a AS z, struct_pack(x := n, y := k), struct_insert(s, z := k) AS ins FROM plays WHERE k < 25
;;
SELECT k AS "select", n "from", usr AS "Größe", song AS "a""b", price AS "a.b", ok "  ", day AS "1" FROM plays WHERE k < 9
;;
SELECT "select" + 1 AS "order", "a""b" AS "group by" FROM (SELECT k AS "select", usr AS "a""b" FROM plays) AS "sub query;" WHERE "sub query;"."select" < 7 ORDER BY "order"
;;
SELECT K, N AS N, Usr, "SONG", PLAYS.k AS kk, plays."Price" FROM Plays WHERE PLAYS.K < 7
;;
SELECT k n, n k, usr song FROM plays WHERE k < 8 ORDER BY 1
;;
SELECT/**/k/* c1 */,--x
n/* nested /* comment */ still */FROM--y
plays/**/WHERE/**/k<5--tail
;;
/* leading */ -- another
SELECT '--' AS a, '/* x */' AS b, "at"/*;*/, 1 - -1 AS c, 1--1
+ 2 AS d, 4 /-2 AS e FROM plays WHERE k < 4 /* trailing
multi */ -- end
;;
SELECT usr.upper().concat('!').length() AS a, usr.substr(2)::INT.add(1) AS b FROM users
;;
SELECT usr.upper().concat('!') AS a, name.lower().replace('a', '_').length() AS b, ('a b').string_split(' ')[1] AS c, [3, 1, 2].list_sort().list_reverse()[1] AS d FROM users
;;
SELECT k, s.x.abs() AS a, s.y.upper() AS b, plays.s.x + 1 AS c, plays.s['y'] AS d, (s).x AS f, struct_extract(s, 'x'), struct_extract_at(s, 2), s.* FROM plays WHERE k < 50
;;
SELECT k, s.*, plays.s.x FROM plays WHERE s.x > 4
;;
SELECT k, unnest(s), s['x'], s['y'][1] FROM plays WHERE s IS NOT NULL AND s.x >= 5
;;
SELECT k, m['x'], m['x'] + 1, m['nope'], map_keys(m), map_values(m), map_entries(m), cardinality(m), map_contains(m, 'x'), element_at(m, 'y'), map_extract(m, 'z'), m IS NULL FROM plays
;;
SELECT id, list_transform(l, lambda x: x + id), list_filter(l, lambda x: x > 1), list_transform(l, lambda x, i: x * i), list_reduce(l, lambda a, b: a + b, 0) FROM nums
;;
SELECT id, list_transform(l, lambda x: list_transform(l, lambda y: coalesce(x, 0) * 10 + coalesce(y, 0))) AS nest, list_reduce(l, lambda acc, x, i: acc + coalesce(x, 0) * i, 100) AS red FROM nums WHERE id % 3 = 0
;;
SELECT id, list_transform([1, 2], lambda id: id + 1) AS shadow, list_filter(l, lambda a: a = 1) AS sh2, list_transform(l, lambda l: l) AS sh3 FROM nums
;;
SELECT id, [x * 2 for x in l if x > 1] AS a, [x for x in l] AS b, [[y for y in l if y = x] for x in l] AS c, [x || '!' for x in ['a', 'b']] AS d FROM nums
;;
SELECT id, [x + i for x, i in l] AS a, [x for x, i in l if i > 1] AS b FROM nums
;;
SELECT id, l[1:2], l[:2], l[2:], l[:], l[-2:], l[:-2], l[1:3:2], l[-1], l[0], l[10], l[:-:-1], l[3:1:-1] FROM nums
;;
SELECT l[id], l[id:id + 1], l[-1:][1], [1, 2, 3, 4, 5, 6][1:6:2], [1, 2, 3, 4][:-:2], [1, 2, 3][2:-1] FROM nums WHERE id BETWEEN -4 AND 4
;;
SELECT usr[1], usr[2:], usr[-1], usr[:1], usr[-1:], usr[0], name[1:2], name[:-2], 'abcdef'[2:4], 'äöü'[2], ('x' || usr)[1:2] FROM users
;;
SELECT 'abcdef'[1:6:2]
;;
SELECT k, list_sort(tags), list_reverse_sort(tags), array_length(tags), len(tags), tags[1] || tags[2], list_contains(tags, 'a'), list_position(tags, 'b'), list_concat(tags, ['z']), tags || ['q'], list_append(tags, 'e'), list_prepend('e', tags), array_to_string(tags, ','), list_aggregate(list_sort(tags), 'string_agg', '/') FROM plays
;;
SELECT k, list_distinct(tags).list_sort() AS a, list_unique(tags), list_has_any(tags, ['a', 'b']), list_has_all(tags, ['a']), tags && ['c'], tags @> ['a'], ['a'] <@ tags, list_intersect(tags, ['a', 'c']).list_sort() AS b, list_sort(tags, 'DESC', 'NULLS FIRST'), flatten([tags, ['w']]), list_zip(tags, [1, 2]), list_slice(tags, 1, 2), list_resize(tags, 2, 'r') FROM plays
;;
SELECT [1, 2, 3]::INT[3] AS a, array_value(1.0, 2.0), array_distance([1, 2]::FLOAT[2], [4, 6]::FLOAT[2]), array_inner_product(array_value(1.0::DOUBLE, 2.0), array_value(3.0::DOUBLE, 4.0)), typeof(array_value(1, 2)), ([1, 2, 3]::INT[3])[2], ([1, 2, 3]::INT[3])[1:2], [[1, 2], [3, 4]]::INT[2][2]
;;
SELECT [1, 2]::INT[3]
;;
SELECT length('🤦🏼‍♂️'), length_grapheme('🤦🏼‍♂️'), strlen('🤦🏼‍♂️'), reverse('äb🤦🏼‍♂️'), left('🤦🏼‍♂️x', 1), left_grapheme('🤦🏼‍♂️x', 1), substring_grapheme('a🤦🏼‍♂️b', 2, 1), upper('straße'), lower('ÇELİK'), unicode('é'), chr(233), ord('ß'), ascii('a'), nfc_normalize('é'), strip_accents('Émile Çelik')
;;
SELECT name, upper(name), lower(name), strip_accents(name), length(name), strlen(name), reverse(name), lpad(name, 8, '*'), rpad(name, 3, '-'), left(name, 2), right(name, -1), name COLLATE NOCASE = 'ANN3' AS c FROM users
;;
SELECT format('{} is {:05d} and {:.2f} {:>6}|{:<4}|', usr, rank, 1.5::DOUBLE, 'r', 'l') AS a, format('{1}-{0}', 'a', 'b') AS b, format('{:,}', 1234567) AS c, format('{{}}') AS d, printf('%5d|%-5s|%05.1f|%x|%%', rank, usr, 2.25::DOUBLE, 255) AS e FROM users
;;
SELECT regexp_matches(name, 'ANN', 'i'), regexp_replace(usr, '[0-9]', '#', 'g'), regexp_replace(usr, '(u)([0-9])', '\2\1'), regexp_extract(usr, 'u(\d+)', 1), regexp_extract(usr, '(u)(\d)', ['p', 'q']), regexp_extract_all(usr, '\d'), regexp_full_match(usr, 'u\d'), regexp_split_to_array(usr, ''), regexp_escape('a.b') FROM users
;;
SELECT trim('  a '), ltrim('xxa', 'x'), rtrim('axx', 'x'), trim(both 'x' from 'xxaxx'), trim(leading from '  b'), trim(trailing 'y' from 'byy'), trim('xya', 'yx'), position('b' in 'abc'), substring('abcdef' from 2 for 3), substring('abcdef' from 3), overlay('abcdef' placing 'ZZ' from 2 for 3)
;;
SELECT split_part(usr || '-' || name, '-', 2), split_part('a,b,c', ',', -1), string_split('a,b', ','), str_split_regex('a1b22c', '\d+'), repeat(usr, 2), replace(name, 'n', 'NN'), translate('abc', 'ab', 'xy'), concat(usr, NULL, 1, true), concat_ws('|', usr, NULL, rank), starts_with(usr, 'u1'), usr ^@ 'u2', contains(name, 'n'), suffix(usr, '1'), levenshtein(usr, 'u11'), hamming('abc', 'abd'), jaccard('ab', 'bc'), bar(5, 0, 10, 4) FROM users
;;
SELECT to_base(255, 16), to_base(5, 2, 8), hex(255), hex('abc'), unhex('616263'), bin(5), from_base64('YWJj'), to_base64('abc'::BLOB), encode('é'), decode('\xC3\xA9'::BLOB), md5('a'), sha256('a'), sha1('a'), url_encode('a b&c'), url_decode('a%20b'), formatReadableSize(123456), format_bytes(1024)
;;
SELECT k, date_part('year', "at"), date_part(['year', 'month', 'day'], "at"), extract(dow FROM "at"), extract('isodow' FROM day), EXTRACT(EPOCH FROM "at"), extract(century FROM day), extract(week FROM day), date_part('doy', day), datepart('quarter', day), year(day), dayname(day), monthname(day), yearweek(day), isoyear(day), extract(microsecond FROM "at"), extract(millisecond FROM "at") FROM plays
;;
SELECT k, date_trunc('week', "at"), date_trunc('hour', "at"), date_trunc('month', day), date_trunc('decade', day), datetrunc('quarter', "at"), typeof(date_trunc('month', day)), typeof(date_trunc('hour', "at")), date_trunc('day', INTERVAL '1 day 5 hours') FROM plays
;;
SELECT time_bucket(INTERVAL 2 DAYS, "at"), time_bucket(INTERVAL '2 days', "at", INTERVAL '5 hours'), time_bucket(INTERVAL '3 hours', "at", TIMESTAMP '2024-05-01 01:30:00'), time_bucket(INTERVAL 1 MONTH, day), time_bucket(INTERVAL '2 months', day, DATE '2024-01-15'), count(*) FROM plays GROUP BY ALL
;;
SELECT usr, age(DATE '2024-02-29', born), age(TIMESTAMP '2024-03-31', TIMESTAMP '2024-02-29'), date_diff('month', born, DATE '2024-05-01'), date_sub('month', born, DATE '2024-05-01'), datediff('year', born, DATE '2024-05-01'), born + INTERVAL 1 YEAR, last_day(born), born - INTERVAL 1 MONTH, born::TIMESTAMP, DATE '2024-01-31' + INTERVAL 1 MONTH, DATE '2024-02-29' - INTERVAL 1 YEAR FROM users
;;
SELECT strftime("at", '%Y/%m/%d %H:%M:%S.%f %a %b %j %p %I'), strftime('%d.%m.%y', day), strftime(day, '%-d %-m %%'), strptime('2024-05-06 07:08', '%Y-%m-%d %H:%M'), strptime('06/05/24', ['%Y-%m-%d', '%d/%m/%y']), try_strptime('nope', '%Y'), typeof(strptime('2024 +0200', '%Y %z')) FROM plays
;;
SELECT id, tz, tz AT TIME ZONE 'UTC', tz AT TIME ZONE 'America/New_York', (tz AT TIME ZONE 'Europe/Berlin') AT TIME ZONE 'Europe/Berlin' = tz AS same, typeof(tz AT TIME ZONE 'UTC'), tz::TIMESTAMP, tz::DATE, timezone('Asia/Tokyo', tz) FROM nums
;;
SELECT TIMESTAMP '2024-05-01 12:00:00' AT TIME ZONE 'Asia/Kolkata', TIMESTAMPTZ '2024-05-01 12:00:00+00' AT TIME ZONE 'Asia/Kolkata', TIMESTAMP '2024-03-31 02:30:00' AT TIME ZONE 'Europe/Berlin', TIMESTAMP '2024-05-01' AT TIME ZONE 'UTC' AT TIME ZONE 'America/Los_Angeles' + INTERVAL 1 HOUR AS z
;;
SELECT k, epoch("at"), epoch_ms("at"), epoch_us("at"), epoch_ns("at"), epoch_ms(1714521600000), make_timestamp(1714521600000000), to_timestamp(1714521600), make_date(2024, 2, 29), make_time(1, 2, 3.5), make_timestamp(2024, 5, 1, 2, 3, 4.5), epoch(day), epoch(INTERVAL 1 DAY), to_days(3), to_months(k::INT % 4), to_hours(2) FROM plays
;;
SELECT d::DATE AS d, count(p.k) FROM generate_series(DATE '2024-05-01', DATE '2024-05-10', INTERVAL 1 DAY) AS g(d) LEFT JOIN plays p ON p.day = g.d::DATE GROUP BY 1
;;
SELECT range, range % 3 AS r FROM range(5) WHERE range > 1
;;
SELECT generate_series(DATE '2024-01-31', DATE '2024-04-30', INTERVAL 1 MONTH), range(TIMESTAMP '2024-01-01', TIMESTAMP '2024-01-02', INTERVAL 8 HOUR), range(3), generate_series(3, 1, -1), range(0), unnest(range(2)) AS u
;;
SELECT '{"a": {"b": [1, "x", null]}, "c d": 2}'::JSON AS j, j -> 'a' -> 'b' AS b, j ->> '$.a.b[1]' AS x, j -> '$.a.b[#-1]' AS last, j ->> '"c d"' AS cd, j->'a'->'b'->0 AS zero, (j ->> 'c d')::INT + 1 AS three, json_extract(j, ['$.a', '$."c d"']) AS two
;;
SELECT k, to_json(s), to_json(m), to_json(tags), to_json(n), json_object('k', k, 'n', n), json_array(k, usr, NULL), (to_json(s) ->> 'x')::BIGINT, to_json(s) -> 'y', to_json(s)->>'y' = 'p' AS yes, row_to_json(s) FROM plays
;;
SELECT json_type('[1]'), json_type('{"a": 1.5}', '$.a'), json_valid('{'), json_array_length('[1, 2]'), json_keys('{"b": 1, "a": 2}'), json_structure('{"a": [1]}'), json_contains('{"a": 1}', '1'), json_merge_patch('{"a": 1}', '{"b": 2}'), from_json('{"a": "1"}', '{"a": "INTEGER"}'), json_transform('[1, 2]', '["DOUBLE"]'), json('{ "a" :1 }'), json_quote('a'), json_exists('{"a": 1}', '$.b'), ('{"a": 5}'::JSON).a
;;
SELECT '{"a": 1}'::JSON ->> 'a' = '1' AS p, NOT '{"a": true}'::JSON ->> 'a' = 'true' AS q, ('[1, 2, 3]'::JSON)[1] AS r
;;
SELECT usr, ('{"a": "' || usr || '"}')::JSON ->> 'a' || '!' AS x, (('{"a": "' || usr || '"}')::JSON ->> 'a') || '!' AS y FROM users
;;
SELECT k, price * 1.5, price + 1, price / 3, price * price, price - 0.001, price // 7, price % 7, -price, price::INTEGER, round(price, 1), round(price, -1), floor(price), ceil(price), abs(price), typeof(price * 1.5), typeof(price + 1), typeof(price / 3), typeof(price * price), typeof(round(price, 1)), typeof(-price), typeof(price % 7) FROM plays
;;
SELECT sum(price), avg(price), typeof(sum(price)), typeof(avg(price)), typeof(sum(n)), typeof(avg(n)), typeof(sum(k)), typeof(count(*)), typeof(min(price)), typeof(sum(score)), typeof(max(day)), typeof(sum(price * 2)), typeof(first(ok ORDER BY k)), typeof(sum(1)), typeof(sum(1.5)) FROM plays
;;
SELECT typeof(2147483647 + 1), typeof(n + 1), typeof(n + 1::TINYINT), typeof(n + 3000000000), typeof(n * k), typeof(n / 2), typeof(n // 2), typeof(1 + true::INT), typeof(n + 0.5), typeof(b'101') FROM plays WHERE k = 1
;;
SELECT 2147483647::INTEGER + 1::INTEGER AS o
;;
SELECT 9223372036854775807 + 1 AS o
;;
SELECT 100::TINYINT * 2::TINYINT AS o, 200::UTINYINT + 100::UTINYINT AS p
;;
SELECT count(a * a) FROM nums
;;
SELECT b + b AS x FROM nums
;;
SELECT b - 255::UTINYINT AS x FROM nums WHERE b < 255
;;
SELECT id, 1 / 0, id / 0, id // 0, id % 0, 0 / 0, 0.0 / 0, 1.0::DOUBLE / 0, -1e0 / 0, mod(id, 0), divide(id, 0), fmod(5, 0) FROM nums WHERE id < -40
;;
SELECT k, score / 0, 0 * score, score % 2, isnan(score), isinf(score), isfinite(score), score = score, score > 100, signbit(score), score::VARCHAR, -score FROM plays
;;
SELECT 'nan'::DOUBLE = 'nan'::DOUBLE, 'nan'::DOUBLE > 'inf'::DOUBLE, '-inf'::FLOAT, 'Infinity'::DOUBLE, -0.0::DOUBLE, (-0.0)::DOUBLE, 0.0::DOUBLE = -0.0::DOUBLE, least(1, 'nan'::DOUBLE), greatest(1, 'nan'::DOUBLE), sqrt(2), pi(), 1e308 * 10
;;
SELECT sqrt(-1)
;;
SELECT ln(0)
;;
SELECT k, tags::VARCHAR, s::VARCHAR, m::VARCHAR, raw::VARCHAR, day::VARCHAR, "at"::VARCHAR, ok::VARCHAR, price::VARCHAR, ok::INT, n::BOOLEAN, k::UTINYINT, day::TIMESTAMP, "at"::DATE, "at"::TIME, s::STRUCT(x VARCHAR, y VARCHAR), tags::VARCHAR[]::VARCHAR, m::MAP(VARCHAR, DOUBLE) FROM plays
;;
SELECT '[1, 2, NULL]'::INT[], '{a: 1, b: x}'::STRUCT(a INT, b VARCHAR), '{''a'': 1}'::STRUCT(a BIGINT), '{k=1, l=2}'::MAP(VARCHAR, INT), '[[a], [b, c]]'::VARCHAR[][], '[1,2]'::INT[2], ['1', '2']::INT[], {'a': '1'}::STRUCT(a INT), {'x': 1, 'y': 2}::STRUCT(y INT, x INT)
;;
SELECT ROW(1, 'a')::STRUCT(a INT, b VARCHAR) AS a, CAST(ROW(1, 2) AS ROW(x BIGINT, y DOUBLE)) AS b
;;
SELECT CAST('1' AS INT), CAST(1.5 AS INT), CAST(2.5 AS INT), CAST(-1.5 AS INT), 1.5::DOUBLE::INT, 2.5::DOUBLE::INT, 3.5::FLOAT::INT, '1.6'::INT, ' 7 '::INT, '1e2'::INT, 'true'::BOOL, 't'::BOOL, 1::BOOL, 'f'::BOOLEAN::INT, '0x1F'::INT, '1_000'::INT
;;
SELECT 'yes'::BOOL AS x
;;
SELECT CAST(k AS VARCHAR(2)) AS a, CAST(n AS NUMERIC(5)) AS b, n::NUMERIC AS c, n::DECIMAL AS d, typeof(n::NUMERIC), typeof(n::DEC(4, 1)), typeof(n::INT8), typeof(n::INT4), typeof(n::INT2), typeof(n::INT1), typeof(n::LONG), typeof(n::REAL), typeof(n::FLOAT8), typeof(usr::TEXT), typeof(usr::CHAR(3)), typeof(usr::STRING), typeof(usr::BPCHAR), typeof(ok::LOGICAL) FROM plays WHERE k < 30
;;
SELECT union_value(a := 1) AS u, union_tag(union_value(num := n)) AS t, union_extract(union_value(num := n), 'num') AS e, union_value(str := usr).str AS f, typeof(union_value(num := n)) FROM plays WHERE k < 10
;;
SELECT k, CASE WHEN ok THEN n::UNION(num INT, str VARCHAR) ELSE usr::UNION(num INT, str VARCHAR) END AS u, n::UNION(num INT, str VARCHAR).num AS v FROM plays WHERE k < 30
;;
SELECT 'b'::ENUM('a', 'b') AS e, typeof('b'::ENUM('a', 'b')), 'b'::ENUM('b', 'a') < 'a'::ENUM('b', 'a') AS lt, enum_range(NULL::ENUM('x', 'y')), enum_first(NULL::ENUM('x', 'y')), enum_code('y'::ENUM('x', 'y'))
;;
SELECT s.y::ENUM('r', 'q', 'p') AS e, count(*) FROM plays GROUP BY e ORDER BY e NULLS LAST LIMIT 3
;;
SELECT 'c'::ENUM('a', 'b') AS e
;;
SELECT '0101'::BIT AS a, BIT '1100' AS b, '0101'::BIT & '1100'::BIT, '0101'::BIT | '1100'::BIT, ~'0101'::BIT, xor('0101'::BIT, '1100'::BIT), '0101'::BIT << 1, bit_count('0111'::BIT), bit_position('1'::BIT, '0010'::BIT), get_bit('0101'::BIT, 1), set_bit('0101'::BIT, 0, 1), bitstring('1', 4), typeof('1'::BIT), 5::BIT, bit_length('abc')
;;
SELECT '47183823-2574-4bfd-b411-99ed177d3e43'::UUID AS u, typeof('47183823-2574-4bfd-b411-99ed177d3e43'::UUID), UUID '{47183823-2574-4bfd-b411-99ed177d3e43}' AS v, '47183823-2574-4bfd-b411-99ed177d3e43'::UUID = '47183823-2574-4BFD-B411-99ED177D3E43' AS same, ('47183823-2574-4bfd-b411-99ed177d3e43'::UUID::VARCHAR)[1:8] AS w, count(*) FROM users
;;
SELECT 1::HUGEINT << 100, 2::HUGEINT ** 10, a::HUGEINT * a, a::HUGEINT * 4 // 3, typeof(a::HUGEINT * a), 5::UHUGEINT - 2, -(a::HUGEINT), a::UHUGEINT IS NULL FROM nums WHERE a > 0
;;
SELECT a::HUGEINT * a AS x, -(a::HUGEINT) AS y, a::HUGEINT % 1000 AS z, 340282366920938463463374607431768211455::UHUGEINT - a::UHUGEINT AS w FROM nums WHERE a BETWEEN 0 AND 99
;;
SELECT "at"::TIMESTAMP_S, "at"::TIMESTAMP_MS, "at"::TIMESTAMP_NS, typeof("at"::TIMESTAMP_S), typeof("at"::TIMESTAMP_NS), TIMESTAMP_NS '2024-05-01 00:00:00.123456789', '2024-05-01 00:00:00.9'::TIMESTAMP_S, "at"::TIMESTAMP(0), "at"::TIMESTAMP(3), "at"::DATETIME FROM plays WHERE k < 60
;;
SELECT '12:34:56+02'::TIMETZ AS a, TIMETZ '01:02:03.5-08:30' AS b, typeof('12:00'::TIME), TIME '23:59:59.999999' AS c, TIME '12:00' + INTERVAL 13 HOURS AS d, TIME '01:00' - INTERVAL 2 HOURS AS e, DATE '2024-05-01' + TIME '03:04' AS f, '24:00:00'::TIME AS g, typeof('12:34:56+02'::TIMETZ), TIME WITH TIME ZONE '10:00:00+01' AS h
;;
SELECT row(k, n) AS r, (k, usr) AS t, (k, n) = (n, k) AS eq, (k, n) < (n, 5) AS lt, row(k, NULL) = row(k, NULL) AS nn, (1, NULL) IS NULL AS isn, row(NULL, NULL) IS NULL AS isn2, row(n) IS NOT NULL AS isnn, row(k, n)[2] AS second, (k) AS par, ((k)) AS par2 FROM plays WHERE k < 25
;;
SELECT struct_pack(a := k, b := usr) AS a, struct_insert({'a': 1}, b := n) AS b, struct_update({'a': 1}, a := 'x') AS c, struct_keys(s), struct_values({'a': 1, 'b': 'x'}), struct_concat(s, {'z': 1}) AS d FROM plays WHERE k < 9
;;
SELECT n FROM plays WHERE k < 10 UNION ALL SELECT price FROM plays WHERE k BETWEEN 5 AND 12
;;
SELECT n AS v FROM plays WHERE k < 10 UNION SELECT usr FROM users
;;
SELECT day AS d FROM plays UNION SELECT "at" FROM plays WHERE k < 9
;;
SELECT * FROM (VALUES (1, 'a'), (2.5, NULL), (NULL, 'c')) AS v(x, y)
;;
VALUES (1, 'a', NULL), (2.50, 'b', 3), (NULL, NULL, 4::BIGINT)
;;
SELECT v.*, typeof(col0), typeof(col1) FROM (VALUES (1::TINYINT, DATE '2024-01-01'), (300, TIMESTAMP '2024-01-01 01:00')) v
;;
SELECT k, n FROM plays ORDER BY n % 7 NULLS FIRST, abs(n) DESC, -k LIMIT 15
;;
SELECT k, usr, score FROM plays ORDER BY score DESC NULLS LAST, usr || song NULLS FIRST, k LIMIT 12 OFFSET 3
;;
SELECT k, n AS k2 FROM plays ORDER BY ok IS NULL, ok, CASE WHEN ok THEN -k ELSE k END, 1 LIMIT 20
;;
SELECT k, hash(n), hash(usr, song), hash(tags), hash(s), md5(usr), hash(NULL), hash(price), hash(score), md5_number(usr), hash(1), hash(1::BIGINT), hash('a'), hash([1, 2]), hash({'a': 1}) FROM plays
;;
SELECT typeof(k), typeof(usr), typeof(n), typeof(price), typeof(score), typeof("at"), typeof(day), typeof(ok), typeof(tags), typeof(s), typeof(m), typeof(raw), typeof(NULL::INT), typeof(s.x), typeof(m['x']), typeof(tags[1]) FROM plays WHERE k = 3
;;
SELECT typeof(id), typeof(a), typeof(b), typeof(f), typeof(tz), typeof(l), typeof(b + 1), typeof(b + b), typeof(f * 2), typeof(f + 1.5), typeof(a % 3), typeof(-b), typeof(~b), typeof(l[1]), typeof(b << 2), typeof(f + a), typeof(sqrt(id)), typeof(id ^ 2), typeof(tz + INTERVAL 1 DAY), typeof(tz - tz), typeof(a || 'x'), typeof(l || [1]) FROM nums WHERE id = 0
;;
SELECT 1, 'a', NULL, TRUE, 1 + 1, -1, - -1, +1, 1.50, 1e2, NOT TRUE, 1 = 2, 1 <> 2, 1 != 2, 1 == 1, (1), ((1 + 2)) * 3
;;
SELECT k + 1, k*2, -k, k::VARCHAR, CAST(k AS DOUBLE), k IS NULL, k IS NOT NULL, NOT ok, k IN (1, 2), k NOT IN (1), k BETWEEN 1 AND 2, k NOT BETWEEN 1 AND 2, usr LIKE 'u%', usr NOT LIKE 'u%', usr ILIKE 'U%', usr || 'x', ok AND NOT ok, ok OR n > 1 FROM plays WHERE k < 3
;;
SELECT CASE WHEN ok THEN 1 END, CASE k WHEN 1 THEN 2 ELSE 3 END, COALESCE(n, 0), NULLIF(n, 1), tags[1], tags[1:2], s.x, s['y'], m['x'], [k, n], {'a': k}, (k, n), row(k), MAP {'a': k}, upper(usr), "at"::DATE, INTERVAL (k) DAY, DATE '2024-01-01', k // 2, k ^ 2, k ** 2, "at" AT TIME ZONE 'UTC', EXTRACT(year FROM day), IF(ok, 1, 2), TRY_CAST(usr AS INT) FROM plays WHERE k < 3
;;
SELECT count(*), count(), count(k), count(DISTINCT usr), sum(n) FILTER (WHERE ok), sum(n) FILTER (ok), max(n) - min(n), string_agg(usr, ',' ORDER BY k), list(n ORDER BY k DESC), bool_and(ok), arg_max(usr, k), first(n ORDER BY k), quantile_cont(n, 0.5), mode(1), any_value(7), approx_count_distinct(1), count_star() FROM plays
;;
SELECT row_number() OVER (ORDER BY k), rank() OVER (PARTITION BY usr ORDER BY k), lag(n, 1, 0) OVER (ORDER BY k), sum(n) OVER (ORDER BY k ROWS BETWEEN 1 PRECEDING AND CURRENT ROW), ntile(4) OVER (ORDER BY k), first_value(usr IGNORE NULLS) OVER (ORDER BY k), count(*) OVER (), max(k) OVER w FROM plays WINDOW w AS (PARTITION BY ok ORDER BY k DESC)
;;
SELECT (SELECT 1), (SELECT max(k) FROM plays), EXISTS (SELECT 1 FROM users), NOT EXISTS (FROM empty), 1 IN (SELECT k FROM plays), 3 > ALL (SELECT rank FROM users WHERE rank < 2), 3 = ANY (SELECT k FROM plays), ARRAY(SELECT k FROM plays WHERE k < 3 ORDER BY k)
;;
SELECT lambda_test.* FROM (SELECT list_transform([1], lambda x: x + 1), [x for x in [1, 2]], $$a$$, E'\t', 0xA, 1_000, x'00', '1'::BIT, INTERVAL '1 day', TIMESTAMP '2024-01-01') AS lambda_test
;;
SELECT 1 AS a, 2 AS a, 3 AS "A"
;;
SELECT k, k, n AS k, k + 1 AS n FROM plays WHERE k < 4
;;
SELECT * FROM (SELECT k, n AS k FROM plays WHERE k < 6) t
;;
SELECT k FROM (SELECT k, n AS k FROM plays WHERE k < 6) t
;;
SELECT * FROM users a JOIN users b USING (usr) WHERE a.rank = b.rank
;;
SELECT a.*, b.usr, b.* FROM users a JOIN songs s ON s.song = replace(a.usr, 'u', 's') JOIN users b ON b.usr = a.usr WHERE a.rank < 4
;;
SELECT x: 42
;;
SELECT a: k, b: n + 1, "c d": usr, e: a + 1 FROM plays WHERE a < 6
;;
SELECT p.k FROM p: plays WHERE p.k < 6
;;
FROM plays
;;
FROM plays SELECT k, n WHERE k < 5 ORDER BY ALL
;;
FROM (FROM users WHERE rank > 3) u SELECT u.usr, u.rank * 2
;;
FROM plays p JOIN users u ON p.usr = u.usr SELECT count(*), min(p.k) WHERE u.rank = 3
;;
SELECT k, n, FROM plays WHERE k IN (1, 2, 3,) GROUP BY k, n, ORDER BY k,
;;
SELECT [1, 2,] AS l, {'a': 1,} AS s, greatest(1, 2) AS g,
;;
SELECT usr, ok, count(*) FROM plays GROUP BY 1, 2 ORDER BY 3 DESC, 1 NULLS FIRST, 2 NULLS LAST LIMIT 10
;;
SELECT n % 5 AS usr, count(*) FROM plays GROUP BY usr
;;
SELECT n % 5 AS b, b + 1 AS c, c * 2 AS d, count(*) FROM plays GROUP BY ALL HAVING d > 0
;;
SELECT k + 1 AS n, n AS m2 FROM plays WHERE n > 45
;;
SELECT -k AS k FROM plays WHERE k > 190 ORDER BY k LIMIT 4
;;
SELECT -k AS k FROM plays ORDER BY k + 0 LIMIT 4
;;
((SELECT ((k)), (((n))) FROM (((plays))) WHERE (((k) < (5)))))
;;
(SELECT k FROM plays WHERE k < 3) UNION ALL ((SELECT k FROM plays WHERE k = 3) EXCEPT (SELECT 3)) ORDER BY 1 DESC LIMIT 2
;;
SELECT * FROM ((users u JOIN (songs s) ON (s.song = 's' || u.usr[2:]))) WHERE ((u.rank) IN ((1), (2)))
;;
SELECT k FROM plays WHERE count(*) > 1
;;
SELECT k FROM plays WHERE row_number() OVER (ORDER BY k) < 3
;;
SELECT nope FROM plays
;;
SELECT plays.nope FROM plays
;;
SELECT plays.k FROM plays p
;;
SELECT nope(k) FROM plays
;;
SELECT usr FROM plays p JOIN users u ON p.usr = u.usr
;;
SELECT FROM plays
;;
SELECT k FROM nosuch
;;
SELECT 'abc'::INT AS x
;;
SELECT k FROM plays WHERE usr
;;
SELECT k, count(*) FROM plays
;;
SELECT sum(sum(n)) FROM plays
;;
SELECT k FROM plays ORDER BY 3
;;
SELECT k, n FROM plays UNION SELECT k FROM plays
;;
SELECT (SELECT k, n FROM plays WHERE k = 1)
;;
SELECT (SELECT k FROM plays)
;;
SELECT date_trunc('nope', "at") FROM plays
;;
SELECT s.nope FROM plays
;;
SELECT n['x'] FROM plays
;;
SELECT [1, 'a', DATE '2024-01-01'] AS x
;;
SELECT CASE WHEN ok THEN 1 ELSE day END FROM plays
;;
SELECT DATE '2024-02-30'
;;
SELECT INTERVAL '1 foo'
;;
SELECT k FROM plays LIMIT 'a'
;;
SELECT * FROM plays JOIN users
;;
SELECT k FROM plays, plays
;;
SELECT lag(n) FROM plays
;;
SELECT sum(n) OVER (ORDER BY row_number() OVER (ORDER BY k)) FROM plays
;;
SELECT * EXCLUDE (nope) FROM plays
;;
SELECT CAST(1 AS NOSUCHTYPE)
;;
SELECT 123.45::DECIMAL(3, 2)
;;
SELECT 'unterminated
;;
SELECT k FROM plays WHERE n IN ()
;;
SELECT count(*) FROM plays WHERE k NOT IN (SELECT n FROM plays WHERE n IS NOT NULL) AND NOT (usr, song) IN (SELECT usr, song FROM plays WHERE ok)
;;
SELECT k, ok IS TRUE, ok IS NOT TRUE, ok IS FALSE, ok IS NOT FALSE, ok IS UNKNOWN, ok ISNULL, ok NOTNULL, n > 0 IS TRUE, NOT ok IS TRUE, (ok = true) IS NULL FROM plays
;;
SELECT k, (1 = 1) = ok AS a, (n = 1) = ok AS b, (n + 1 > 2) IS NULL AS c, (n IS NULL) = ok AS d FROM plays
;;
SELECT k, ok = (n > 0) AS a, n - - 1 AS b, n - (-1) AS c, n -1 AS d, n - (1 - 2) AS e, n - (k - 1) - 1 AS f, n / (k / 2.0) AS g, (n // 2) // 2 AS h, n // (k // 2 + 1) AS i, n * (k % 3) AS j, (n * k) % 3 AS l FROM plays
;;
SELECT (2 ^ 3) ^ 2, 2 ^ (3 ^ 2), (-2) ^ 2, -(2 ^ 2), 2 ^ -1, 2 * 3 ^ 2, 10 - 5 - 2, 10 - (5 - 2), 100 / 10 / 2, 100 / (10 / 2), 1 - (2 + 3), -(-(1)), 7 & (3 | 4), (7 & 3) | 4, 1 << (2 + 1), 1 << 2 + 1, 5 % (3 % 2), NOT (NOT true), NOT NOT false
;;
SELECT 1 | 2 & 4, 6 & 3 + 1, 1 << 1 << 2, 16 >> 1 << 1, 3 + 4 || 'x', 1 || 2 || 3, 1 + 2 = 3 AND 4 > 3, 'a' || 'b' = 'ab', 'a' || 'b' LIKE 'a%', 1 + 1 IN (2), 5 BETWEEN 1 + 1 AND 2 * 3
;;
SELECT usr FROM users WHERE NOT name LIKE 'A%' AND NOT name IS NULL AND NOT (rank > 2 OR rank IS NULL)
;;
SELECT 5!, 3 ! FROM users WHERE usr = 'u1'
;;
SELECT 5 <> ALL ([1, 2]), 1 = ANY ([1, 2]), 3 > ANY ([4, 1]), NULL = ANY ([1]), id = ANY (l), id <> ALL (l) FROM nums
;;
SELECT usr, usr LIKE ANY (['u1%', '%2']) AS x FROM users
;;
SELECT k, round(n / 3, 2), round(n * 1.0 / 7, 3), trunc(score), even(n), sign(n), gcd(n, 12), lcm(n, 3), 5!, factorial(5), greatest(n, k, 3), least(n, NULL, k), bit_count(n), round(-2.5), round(2.5::DOUBLE), round(1.005, 2), ceil(-0.5), typeof(ceil(1.5)), typeof(round(2.567, 2)), cbrt(27), pow(2, 0.5), power(2, 3), log(100), log2(8), nextafter(1::FLOAT, 2::FLOAT) FROM plays WHERE k < 44
;;
SELECT first.k AS k, "left".n AS "right" FROM plays AS first JOIN plays "left" ON first.k = "left".k WHERE first.k < 5
;;
SELECT k AS value, n AS year, usr AS date, song AS "end", day AS timestamp, ok AS interval, price AS row FROM plays WHERE k < 4
;;
SELECT value + 1, year, date FROM (SELECT k AS value, n AS year, day AS date FROM plays) AS data WHERE date > DATE '2024-05-05' AND year > 40
;;
SELECT k year, n value, usr type FROM plays WHERE k < 4
;;
SELECT k AS "Ab", n AS "aB" FROM plays WHERE k < 4
;;
SELECT AB, ab + 1 FROM (SELECT k AS "Ab" FROM plays WHERE k < 4)
;;
WITH "With" AS (SELECT k AS "K", n FROM plays), "t 2"(a, "b c") AS (SELECT * FROM "With" WHERE "k" < 6) SELECT "t 2"."b c" AS "x.y", "T 2".A FROM "t 2"
;;
SELECT main.plays.k, memory.main.plays.n FROM main.plays WHERE main.plays.k < 3
;;
SELECT plays FROM plays WHERE k < 5
;;
SELECT p.s.x, p.s.y AS x, p.k FROM plays AS p WHERE p.s.x IS NOT NULL AND (p.s).y = 'p'
;;
SELECT struct_pack(k => k, n => n) AS a, round(x := 1.5) FROM plays WHERE k < 3
;;
SELECT time_bucket(bucket_width := INTERVAL 1 DAY, "at") FROM plays
;;
SELECT struct_pack(k => k, "odd name" => n) AS a, struct_pack("A" := 1, b := 'x') AS b FROM plays WHERE k < 7
;;
SELECT list_transform(l, x -> x + 1) FROM nums
;;
SELECT id, list_filter(list_transform(l, lambda x: {'v': x, 'd': x * 2}), lambda e: e.v > 1 AND e.d <= 8 OR e.v IS NULL) AS o, list_transform(l, lambda x: CASE WHEN x > 2 THEN 'hi' ELSE x::VARCHAR END) AS p, apply(l, lambda x: x BETWEEN 1 AND 3 AND NOT x = 2) AS q FROM nums
;;
SELECT k, list_transform(map_entries(m), lambda e: e.key || '=' || coalesce(e.value, -1)).list_sort() AS e, map_from_entries([(1, 'a'), (2, 'b')]) AS f, map_concat(MAP {'q': 1}, MAP {'q': 2, 'r': 3}) AS g, MAP {'a': 1} = MAP {'a': 1} AS h, MAP {[1]: {'z': 2}}[[1]].z AS i FROM plays
;;
SELECT k, raw, hex(raw), octet_length(raw), raw || 'a'::BLOB, raw = ''::BLOB, to_base64(raw), raw::VARCHAR, raw > '\x80'::BLOB, md5(raw) FROM plays
;;
SELECT '2024-05-01 10:00:00+02'::TIMESTAMPTZ AS a, '2024-05-01 10:00:00 Europe/Paris'::TIMESTAMPTZ AS b, '2024-05-01T10:00:00Z'::TIMESTAMP AS c, TIMESTAMPTZ '2024-05-01 10:00:00' = TIMESTAMP '2024-05-01 10:00:00' AS d
;;
SELECT DATE '2024-01-31' + INTERVAL '1 month' + INTERVAL '1 month' AS a, DATE '2024-01-31' + (INTERVAL '1 month' + INTERVAL '1 month') AS b, DATE '2024-01-31' + INTERVAL 1 MONTH - INTERVAL 1 MONTH AS c, INTERVAL 30 DAY = INTERVAL 1 MONTH AS d, INTERVAL 24 HOUR = INTERVAL 1 DAY AS e, INTERVAL 1 MONTH > INTERVAL 29 DAY AS f, DATE '0044-03-15 (BC)' AS g, DATE '9999-12-31' + 1 AS h
;;
SELECT "at" > '2024-05-05' AS a, "at" = DATE '2024-05-05' AS b, day BETWEEN '2024-05-02' AND '2024-05-04' AS c, day IN ('2024-05-01', '2024-05-02') AS d, count(*) FROM plays GROUP BY ALL ORDER BY ALL
;;
SELECT current_date AS d IS NULL
;;
SELECT k FROM plays WHERE n = '7' OR price > '900.5' OR k = 3.0 OR ok = 'true' AND k < '5'
;;
SELECT k FROM plays WHERE k = 3.5 OR n > 48.5 OR n = 1e1 OR price = 5::DOUBLE OR k = '12'
;;
SELECT k FROM plays WHERE n = 'abc'
;;
SELECT * EXCLUDE (raw, m, tags) REPLACE (n + 1 AS n, upper(usr) AS usr) RENAME (song AS tune) FROM plays WHERE k < 12
;;
SELECT COLUMNS('^[kn]$') + 1, COLUMNS(lambda c: c LIKE 's%'), * LIKE 'p%', * NOT SIMILAR TO '.{2,}' FROM plays WHERE k < 5
;;
SELECT max(COLUMNS(* EXCLUDE (tags, s, m, raw, score))), count(COLUMNS('u(.*)')) AS 'c_\1' FROM plays
;;
SELECT coalesce(*COLUMNS('^[nk]$')) AS c, [*COLUMNS(['k', 'n'])] AS l FROM plays WHERE k < 9
;;
SELECT 'x' AS 'quoted alias', k AS 'at' FROM plays WHERE k < 3
;;
SELECT CAST(NULL AS STRUCT(a INT, b VARCHAR[])) AS a, NULL::MAP(INT, INT) AS b, NULL::INT[][] AS c, NULL + 1 AS d, NULL || 'a' AS e, NULL AND false AS f, NULL OR true AS g, NULL = NULL AS h, NULL IS NULL AS i, [NULL] = [NULL] AS j, {'a': NULL} = {'a': NULL} AS k2, typeof(NULL + 1), typeof(NULL || 'a'), typeof([NULL, 1]), typeof(COALESCE(NULL, NULL)) FROM users
;;
SELECT is_histogram_other_bin(1), alias(k + 1), alias(usr), vector_type(1) IS NULL, can_cast_implicitly(1, 1::BIGINT), equi_width_bins(0, 10, 2, true), constant_or_null(1, n) FROM plays WHERE k < 2
;;
SELECT if(k > 500, error('boom'), k) AS e, alias(k + 1) AS a, alias(usr), TRY(1::INT + 2147483647::INT) AS t, TRY(CAST(usr AS INT)) AS u FROM plays WHERE k < 9
;;
SELECT count(*) FROM plays WHERE 'a' < 'B' AND 'a' < 'b' COLLATE NOCASE AND usr COLLATE NOCASE IN ('U1', 'U2')
;;
SELECT name FROM users ORDER BY name COLLATE NOACCENT.NOCASE NULLS FIRST, usr LIMIT 11
;;
SELECT grouping(usr) AS g, grouping(usr, ok) AS h, usr, ok, count(*) FROM plays WHERE n > 20 GROUP BY GROUPING SETS ((usr), (usr, ok), ())
;;
SELECT k::VARCHAR || ':' || CASE WHEN n > 0 THEN '+' ELSE '-' END || abs(n)::VARCHAR || CASE WHEN ok THEN '!' ELSE '' END AS z FROM plays WHERE (n)::BOOLEAN AND k < 50
;;
SELECT t.i, t.v, t.j FROM (SELECT unnest([10, 20, 30]) AS v, unnest(['a', 'b']) AS j, generate_subscripts([10, 20, 30], 1) AS i) t
;;
SELECT k, unnest(tags) AS t, unnest([1, 2]) AS u, unnest({'p': k, 'q': {'r': n}}, recursive := true) FROM plays WHERE k < 8
;;
SELECT EXTRACT(YEAR FROM DATE '2024-05-01') + 1 AS a, EXTRACT(SECOND FROM TIME '01:02:03.5') AS b, EXTRACT(MONTH FROM INTERVAL '14 months') AS c, EXTRACT(timezone_hour FROM TIMESTAMPTZ '2024-05-01 00:00:00+00') AS d, date_part('epoch', INTERVAL 1 YEAR) AS e, EXTRACT(julian FROM DATE '2024-05-01') AS f, EXTRACT(era FROM DATE '2024-05-01') AS g
;;
SELECT count(*) FROM plays WHERE true AND NOT false AND 1 AND 'true' AND NOT 0 OR NULL
;;
SELECT k FROM plays WHERE k < 10 AND (NULL OR n > 0) AND NOT (NULL AND ok) AND (1 = 1 OR 1 / 0 = 1)
;;
SELECT k FROM plays WHERE k < 5 AND 1 = 0 AND error('never') IS NULL
;;
SELECT k, n FROM plays QUALIFY row_number() OVER (PARTITION BY n % 4 ORDER BY k) = 1 AND n IS NOT NULL
;;
SELECT k FROM plays ORDER BY k LIMIT 3 + 2 OFFSET (SELECT 2)
;;
SELECT k FROM plays ORDER BY k DESC LIMIT 2.5%
;;
SELECT k AS "at", "at" AS k2 FROM plays WHERE "at" > TIMESTAMP '2024-05-08' ORDER BY "at" LIMIT 7
;;
SELECT usr FROM users WHERE usr BETWEEN 'U1' COLLATE NOCASE AND 'U3'
;;
SELECT usr FROM users WHERE usr BETWEEN 'u1' AND 'U3' COLLATE NOCASE
;;
SELECT usr FROM users WHERE usr NOT BETWEEN 'U1' COLLATE NOCASE AND 'U3'
;;
SELECT p.k, u.usr FROM plays p JOIN users u ON p.usr = u.usr WHERE u.usr BETWEEN 'U1' COLLATE NOCASE AND 'U3' AND p.k < 40
;;
SELECT usr FROM users WHERE usr BETWEEN 'U1' AND (SELECT max(usr) COLLATE NOCASE FROM users)
;;
SELECT usr FROM users WHERE usr BETWEEN upper('u1' COLLATE NOCASE) AND 'U3'
;;
SELECT usr FROM users WHERE usr = upper('u1' COLLATE NOCASE) OR usr >= concat('U', '7' COLLATE NOCASE)
;;
SELECT name, usr FROM users ORDER BY 1 COLLATE NOCASE DESC NULLS LAST, 2
;;
SELECT name || count(*) AS c FROM users GROUP BY name ORDER BY (1 COLLATE NOACCENT), 1 LIMIT 7
;;
SELECT DISTINCT left(name, 1) FROM users ORDER BY 1 COLLATE NOCASE.NOACCENT, 1
