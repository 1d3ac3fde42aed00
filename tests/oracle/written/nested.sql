SELECT k, s.x, s.y, s.x IS NULL AND s IS NOT NULL AS hollow FROM plays WHERE k BETWEEN 10 AND 60
;;
SELECT k, s.* FROM plays ORDER BY k LIMIT 25 OFFSET 5
;;
select p.k, p.s.x as "X", "p"."s"."y" AS "Y", struct_extract(p.s, 'x') + 1 AS nx
from plays as p
where p.s.x > 3
;;
SELECT s, count(*) AS c, min(k) FROM plays GROUP BY s ORDER BY s NULLS FIRST
;;
SELECT s.y, list(s.x ORDER BY s.x DESC NULLS LAST, k) AS xs, count(DISTINCT s) AS d FROM plays GROUP BY s.y
;;
Select  Distinct
  S   -- the whole struct
From PLAYS
Where (s).Y in ('p','q')
;;
SELECT DISTINCT ON (s.y) s.y, k, s FROM plays ORDER BY s.y NULLS LAST, k DESC
;;
SELECT a.k, b.k AS other FROM plays a JOIN plays b ON a.s = b.s AND a.k < b.k WHERE a.k < 50
;;
SELECT a.k, b.k AS bk FROM plays AS a JOIN plays AS b ON a.s IS NOT DISTINCT FROM b.s AND b.k = a.k + 1
;;
-- rows as keys of a semi join
SELECT k, s FROM plays p WHERE p.s IN (SELECT q.s FROM plays q WHERE q.k > 150 AND q.ok)
;;
SELECT k FROM plays WHERE (usr, song) IN (SELECT (usr, song) FROM plays WHERE n > 25)
;;
SELECT k FROM plays WHERE (s.x, s.y) = (3, 'q') OR s = {'x': 4, 'y': 'p'}
;;
SELECT k, s < {'x': 4, 'y': 'q'} AS lt, s >= ROW(4, 'q') AS ge, s IS DISTINCT FROM NULL AS d FROM plays ORDER BY k DESC LIMIT 60
;;
SELECT row(k, usr) AS r, ROW(k, usr)[1] AS one, (k, usr)[2] AS two FROM plays WHERE k % 17 = 0
;;
SELECT struct_pack(key := k, "the user" := usr, nested := struct_pack(z := s, t := tags)) AS deep FROM plays WHERE n < -20
;;
WITH d AS (SELECT k, {'a': {'b': {'c': n, 'd': [k, n]}}, 'e': tags} AS v FROM plays)
SELECT k, v.a.b.c, v.a.b.d[1], v['a']['b']['d'][-1] AS last, v.e[1] FROM d WHERE v.a.b.c IS NOT NULL
;;
SELECT struct_insert(s, z := k, w := usr) AS si FROM plays WHERE s IS NOT NULL AND k < 30
;;
SELECT k, struct_update(s, y := upper(s.y), extra := n) AS u FROM plays WHERE k >= 180
;;
SELECT struct_concat(s, {'z': k}) AS c FROM plays WHERE k IN (1, 2, 3, 5, 8, 13, 21)
;;
SELECT k, struct_keys(s), struct_values(s) FROM plays WHERE k < 12
;;
SELECT k, unnest({'a': [1, 2], 'b': {'c': k, 'd': n}}, recursive := true) FROM plays WHERE k < 9
;;
SELECT k, unnest([{'a': k, 'b': [n, 0]}, {'a': -k, 'b': []}], recursive := TRUE) FROM plays WHERE k < 7
;;
SELECT k, unnest([[k, k + 1], [], NULL, [n]], max_depth := 2) AS u FROM plays WHERE k IN (4, 9, 12)
;;
SELECT s.* EXCLUDE (x) FROM plays WHERE k > 190
;;
SELECT k,
	s.* REPLACE (coalesce(s.y, '-') AS y) FROM plays WHERE s.x = 5
;;
SELECT s.* RENAME (x AS ex, y AS why), k FROM plays WHERE k BETWEEN 33 AND 44
;;
SELECT p FROM plays AS p WHERE p.k = 3
;;
SELECT u, u.name FROM users u WHERE u.rank > 6
;;
SELECT to_json(x) AS j FROM (SELECT usr, kind, v FROM events WHERE v > 90) AS x
;;
SELECT max(s)
     , min(s)
     , max({'n': n, 'k': k})
     , min((ok, k)) /* a row */
FROM plays
;;
SELECT usr, max(struct_pack(n := n, song := song)) FILTER (WHERE n IS NOT NULL AND song IS NOT NULL) AS best FROM plays GROUP BY usr
;;
SELECT k, s, row_number() OVER (PARTITION BY s ORDER BY k) AS rn, rank() OVER (ORDER BY s NULLS LAST) AS rk FROM plays
;;
SELECT s.x, s.y, count(*) FROM plays GROUP BY GROUPING SETS ((s.x), (s.y), ())
;;
SELECT g.genre, g.c FROM (SELECT {'genre': genre, 'c': count(*)} AS g FROM songs GROUP BY genre) ORDER BY g
;;
SELECT {'x': k, 'x': n} FROM plays
;;
SELECT s.x.y FROM plays
;;
SELECT s[1] FROM plays WHERE k = 1
;;
SELECT s['x'] + s['y'] FROM plays
;;
SELECT k, s::VARCHAR AS txt, len(s::VARCHAR) AS l FROM plays WHERE k < 40 ORDER BY txt NULLS FIRST, k
;;
SELECT k, CAST(s AS STRUCT(x VARCHAR, y VARCHAR)) AS s2, s::STRUCT(y TEXT, x SMALLINT) AS s3 FROM plays WHERE k < 25
;;
SELECT '{''x'': 5, ''y'': hello}'::STRUCT(x INT, y VARCHAR) AS st, '[1, 2, NULL]'::INT[] AS li, '{a=1, b=2}'::MAP(VARCHAR, INT) AS ma, count(*) FROM plays
;;
SELECT try_cast(s.y || s.x AS INTEGER) AS t, TRY_CAST('[' || k || ',' || n || ']' AS BIGINT[]) AS l FROM plays WHERE k < 30
;;
-- ---------- lists
SELECT k, tags[1], tags[-1], tags[2:], tags[:-2], tags[0], tags[100], tags[2:2] FROM plays WHERE len(tags) >= 2
;;
SELECT id, l[1:3:2] AS a, l[-1:1:-1] AS b, l[:-:-1] AS rev, l[-2:] AS c, l[3:1] AS d FROM nums WHERE l IS NOT NULL
;;
SELECT id, list_slice(l, 1, 2), array_slice(l, -2, -1), list_slice(l, NULL, 1), list_reverse(l) FROM nums
;;
SELECT k, tags[k % 3 + 1] AS pick, tags[-(k % 3) - 1] AS kcip FROM plays WHERE tags IS NOT NULL
;;
SELECT id, [x * 2 FOR x IN l] AS dbl, [x + id FOR x IN l IF x > 1] AS cond FROM nums
;;
SELECT id, [[[x, y] FOR y IN l] FOR x IN l] FROM nums WHERE id < -40
;;
SELECT id, [x || ':' || i FOR x, i IN l] AS numbered FROM nums WHERE len(l) > 1
;;
SELECT k, list_transform(tags, lambda t: t || k::VARCHAR) AS lt, list_filter(tags, lambda t, i: t IS NOT NULL AND i <> k % 3) AS lf FROM plays
;;
SELECT id, list_reduce(l, lambda a, x: coalesce(a, 0) * 10 + coalesce(x, 0), id::BIGINT) AS r FROM nums WHERE l IS NOT NULL
;;
SELECT id, list_reduce(l, lambda a, x, i: a + x * i, 0) AS weighted FROM nums WHERE list_count(l) = len(l)
;;
SELECT id, list_reduce(l, lambda a, x: a + x) FROM nums WHERE len(l) > 0 ORDER BY 1
;;
SELECT id, list_reduce(l, lambda a, x: a + x) FROM nums WHERE len(l) = 0
;;
SELECT id, list_transform(l, lambda x: list_transform(range(x), lambda y: x * y + b)) AS tri FROM nums WHERE b < 120
;;
SELECT id, list_transform(generate_series(1, 3), lambda o: list_filter(l, lambda i: i >= o)) AS nested FROM nums WHERE len(l) = 3
;;
SELECT id, list_transform(l, x -> x + 1) FROM nums
;;
SELECT id, l.list_transform(lambda x: x % 3).list_distinct().list_sort() AS chain, l.len() AS n FROM nums
;;
SELECT k, list_zip(tags, range(1, 4)) AS z, list_zip(tags, [k, n], true) AS zt FROM plays WHERE k < 40
;;
SELECT k, list_zip(tags, m.map_keys(), [ok]) AS three FROM plays WHERE k BETWEEN 50 AND 80
;;
SELECT id, list_sort(l), list_sort(l, 'DESC'), list_sort(l, 'DESC', 'NULLS FIRST'), list_reverse_sort(l), array_sort(l, 'ASC', 'NULLS LAST') FROM nums
;;
SELECT id, list_grade_up(l) AS g, list_grade_up(l, 'desc') AS gd, [l[i] FOR i IN list_grade_up(l)] AS sorted FROM nums WHERE len(l) > 1
;;
SELECT id, list_aggregate(l, 'sum') AS s, list_aggregate(l, 'avg') AS a, list_aggr(l, 'string_agg', '|') AS sa, list_min(l), list_max(l), list_median(l), list_any_value(l) FROM nums
;;
SELECT id, list_sum(l), list_avg(l), list_product(l), list_count(l), list_stddev_pop(l), list_first(l), list_last(l), list_mode([1, 1, id]) FROM nums
;;
SELECT k, list_histogram(tags) AS h, list_unique(tags), list_distinct(tags).list_sort() FROM plays WHERE k % 4 = 1
;;
SELECT k, list_contains(tags, 'a'), list_has(tags, NULL), list_position(tags, 'b'), list_indexof(tags, 'zz'), 'c' IN tags, array_has_any(tags, ['d', 'e']), list_has_all(tags, ['a', 'b']) FROM plays
;;
SELECT k, tags && ['a', 'c'] AS any_, tags @> ['b'] AS sup, ['a', 'b', 'c', 'd', 'e'] <@ tags AS sub FROM plays WHERE k < 70
;;
SELECT k, list_intersect(tags, ['a', 'b', 'c']).list_sort() AS i, list_concat(tags, ['z']), tags || NULL AS nn, [usr] || tags AS pre, list_append(tags, song), list_prepend(song, tags) FROM plays WHERE k > 140
;;
SELECT k, list_resize(tags, 3, '?'), list_resize(tags, 1), flatten([tags, NULL, ['q']]), list_where(tags, [true, false, true]), list_select(tags, [1, 1, 2]) FROM plays WHERE len(tags) = 3
;;
SELECT k, array_to_string(tags, '-') AS a, list_to_string FROM (SELECT k, tags, array_to_string(list_filter(tags, lambda t: t > 'b'), '') AS list_to_string FROM plays) WHERE k < 50
;;
SELECT k, array_to_string_comma_default(tags) AS c FROM plays WHERE k BETWEEN 20 AND 35
;;
SELECT tags, count(*) AS c, sum(n) FROM plays GROUP BY tags HAVING count(*) > 1 ORDER BY tags NULLS FIRST
;;
SELECT k, tags < ['b'] AS lt, tags = ['a', NULL] AS eqn, tags IS NOT DISTINCT FROM [NULL] AS nd, tags > [] AS nonempty, tags BETWEEN ['a'] AND ['c', 'z'] AS btw FROM plays
;;
SELECT [1, NULL] = [1, NULL] AS a, [1, NULL] < [1, 2] AS b, {'a': NULL} = {'a': NULL::INT} AS c, (1, NULL) < (1, 2) AS d, (1, NULL) = (1, 2) AS e, (NULL, 1) IS DISTINCT FROM (NULL, 1) AS f, [NULL] > [] AS g, max(k) FROM plays
;;
SELECT a.k AS ak, b.k AS bk FROM plays a, plays b WHERE a.tags = b.tags AND a.k < b.k AND len(a.tags) = 2
;;
SELECT a.id, b.id AS "B" FROM nums a LEFT JOIN nums b ON a.l = b.l AND a.id <> b.id AND len(b.l) > 0 WHERE a.id BETWEEN 0 AND 20
;;
select t,count(*)as c from(select unnest(tags)as t from plays)group by t order by c desc,t nulls first
;;
SELECT k, unnest(tags) AS t, unnest([10, 20, 30, 40]) AS v, unnest(m.map_values()) AS mv FROM plays WHERE k < 15
;;
SELECT k, t, i FROM plays, unnest(tags) WITH ORDINALITY AS u(t, i) WHERE k < 60
;;
SELECT p.k, u.t FROM plays p LEFT JOIN LATERAL (SELECT unnest(p.tags) AS t) u ON true WHERE p.k % 5 = 0
;;
SELECT p.usr, count(DISTINCT t.tag) AS tags_seen, string_agg(DISTINCT t.tag, '' ORDER BY t.tag) AS which FROM plays p CROSS JOIN LATERAL unnest(p.tags) AS t(tag) GROUP BY p.usr
;;
SELECT k, (SELECT string_agg(upper(t), '+' ORDER BY t) FROM unnest(tags) AS q(t)) AS joined FROM plays WHERE k BETWEEN 100 AND 140
;;
SELECT id, (SELECT sum(v * v) FROM (SELECT unnest(l) AS v)) AS squares, (SELECT count(*) FROM unnest(l) AS z(e) WHERE e IS NULL) AS nulls FROM nums
;;
SELECT id FROM nums WHERE EXISTS (SELECT 1 FROM unnest(l) AS x(e) WHERE e = abs(id) % 5)
;;
SELECT id FROM nums WHERE 3 = ANY(l) AND NOT (0 = ANY(l)) OR 2 <= ALL(l)
;;
SELECT k FROM plays WHERE k = ANY([3, 5, n]) OR usr = ANY(['u1', 'u2']::VARCHAR[]) AND n > 10
;;
SELECT g, count(p.k) AS hits FROM generate_series(0, 20, 4) AS t(g) LEFT JOIN plays p ON p.n BETWEEN g AND g + 3 GROUP BY g ORDER BY g
;;
SELECT range(n), range(n, n + 5, 2), generate_series(n, 0, -3) FROM plays WHERE n BETWEEN 1 AND 9
;;
SELECT d::DATE AS d, count(p.k) FROM unnest(generate_series(DATE '2024-05-01', DATE '2024-05-09', INTERVAL 1 DAY)) AS c(d) LEFT JOIN plays p ON p.day = c.d GROUP BY ALL ORDER BY ALL
;;
SELECT id, list_transform(range(0, 3), lambda i: date_add(tz::DATE, to_days(i::INTEGER))) AS next3 FROM nums WHERE id % 9 = 0
;;
SELECT usr, list(DISTINCT t ORDER BY t) AS all_tags FROM (SELECT usr, unnest(tags) t FROM plays) GROUP BY usr HAVING len(list(DISTINCT t)) > 3
;;
SELECT usr, flatten(list(tags ORDER BY k)) AS f, len(flatten(list(tags))) AS c FROM plays WHERE tags IS NOT NULL GROUP BY usr
;;
SELECT list_sort(list_distinct(flatten(list(l)))) AS every, list_sum(flatten(list(l))) AS s, list_sum(list(list_sum(l))) AS s2 FROM nums
;;
SELECT b % 3 AS g, list(l ORDER BY id) FILTER (WHERE len(l) = 1) AS singles, list(id ORDER BY l, id)[:4] AS first4 FROM nums GROUP BY g ORDER BY g NULLS LAST
;;
SELECT max(l), min(l), arg_max(id, (l, id)), count(DISTINCT l), max(len(l)) FROM nums WHERE len(l) > 1 OR l IS NULL
;;
SELECT k, apply(tags, lambda t: CASE t WHEN 'a' THEN 1 WHEN 'b' THEN 2 ELSE NULL END) AS codes, filter(tags, lambda t: t LIKE '[ab]') AS none FROM plays WHERE k < 33
;;
SELECT id, list_transform(l, lambda x: {'v': x, 'sq': x * x, 'id': id}) AS objs, list_transform(l, lambda x: {'v': x}.v) AS back FROM nums WHERE id > 30
;;
SELECT id, list_filter(list_transform(l, lambda e: struct_pack(e, par := e % 2 = 0)), lambda r: r.par) AS ev FROM nums WHERE id < 0
;;
SELECT id, list_filter(list_transform(l, lambda e: struct_pack(e := e, par := e % 2 = 0)), lambda r: r.par) AS ev FROM nums WHERE id < 0
;;
SELECT k, list_transform(tags, lambda k: upper(k)) AS shadow, list_transform(tags, lambda tags: tags || '!') AS shadow2 FROM plays WHERE k < 20
;;
SELECT list_sum(tags) FROM plays
;;
SELECT [1, 'a', k] FROM plays WHERE k = 0
;;
SELECT [k, n, price, score] AS mixed, typeof([k, n, price, score]) AS ty FROM plays WHERE k < 15
;;
SELECT [] AS e, typeof([]), [NULL] AS n, typeof([NULL]), [[]] AS ee, [k][1:0] AS z FROM plays WHERE k < 3
;;
SELECT list_value(k, n, NULL) AS v, list_pack(usr, song) AS p, array_value(k, 1, 2) AS arr, array_length([k, n]) AS len FROM plays WHERE k > 193
;;
SELECT array_distance([n, k]::FLOAT[2], [0, 0]::FLOAT[2]) AS d, array_inner_product([n, k]::DOUBLE[2], [1, 2]::DOUBLE[2]) AS ip, list_cosine_similarity([1.0, 0.0], [1.0, 0.0]) AS cs FROM plays WHERE n IS NOT NULL AND k < 20
;;
SELECT id, l::VARCHAR, l::VARCHAR[] AS vs, l::DOUBLE[] AS ds, CAST(l AS TINYINT[]) AS ts FROM nums WHERE id BETWEEN -5 AND 5
;;
SELECT id, list_dot_product(l, l) AS sq, list_distance(l::DOUBLE[], l::DOUBLE[]) AS zero FROM nums WHERE len(l) > 0 AND list_count(l) = len(l)
;;
SELECT repeat([k], 3) AS r, repeat(usr, 2) AS rs, list_concat([k], NULL, [n]) AS three FROM plays WHERE k BETWEEN 60 AND 70
;;
-- ---------- maps
SELECT k, m['x'] AS x, m['nokey'] AS nothing, map_extract(m, 'y') AS y, element_at(m, 'z') AS z, map_extract_value(m, 'x') AS xv FROM plays WHERE k < 60
;;
SELECT k , CARDINALITY( m ) , Map_Keys(m) . list_sort(), map_values(m), map_contains(m, 'x'), map_contains_value(m, 3) FROM plays WHERE m IS NOT NULL
;;
SELECT k, e.key, e.value FROM (SELECT k, unnest(map_entries(m)) AS e FROM plays) ORDER BY k, e.key
;;
SELECT e.key AS k, sum(e.value) AS total, count(*) AS c, count(e.value) AS nn FROM (SELECT unnest(map_entries(m)) AS e FROM plays) GROUP BY e.key ORDER BY 1
;;
SELECT map(['a', 'b'], [k, n]) AS m1, MAP {'k': k, 'n': n} AS m2, map {} AS m3, map_from_entries([('q', k), ('r', NULL)]) AS m4 FROM plays WHERE k < 10
;;
SELECT MAP {k: usr, k + 1: song}[k] AS u, MAP {[k]: 'l', [n]: 'm'}[[k]] AS viaList FROM plays WHERE k BETWEEN 80 AND 95 AND k <> n
;;
SELECT MAP {'a': 1, 'a': 2} FROM plays
;;
SELECT MAP {NULL: k} FROM plays WHERE k = 4
;;
SELECT k, map_concat(m, MAP {'w': 100, 'x': -1}) AS mc FROM plays WHERE k % 11 = 3
;;
SELECT k, m = MAP {'x': 1} AS e, m IS NOT DISTINCT FROM MAP {}::MAP(VARCHAR, INT) AS isempty FROM plays WHERE cardinality(m) < 2
;;
SELECT m, count(*) FROM plays WHERE cardinality(m) <= 1 GROUP BY m HAVING count(*) > 1
;;
SELECT usr, map(list(k ORDER BY k), list(song ORDER BY k)) AS timeline FROM plays WHERE usr IN ('u3', 'u4') GROUP BY usr
;;
SELECT usr, map_from_entries(list((k, n) ORDER BY k)) AS byk, map_from_entries(list((k, n) ORDER BY k))[12] AS k12 FROM plays GROUP BY usr
;;
SELECT histogram(tags[1]) AS h1, histogram(s.y) AS h2, histogram(ok) FILTER (WHERE n > 0) AS h3, map_keys(histogram(n % 3)) AS h4 FROM plays
;;
SELECT "country", histogram("rank"//3) "h", cardinality(histogram(left(name, 1))) AS initials FROM users GROUP BY country ORDER BY country NULLS FIRST
;;
SELECT k, list_transform(map_entries(m), lambda e: e.key || '=' || coalesce(e.value::VARCHAR, 'null')).list_sort().array_to_string('&') AS qs FROM plays WHERE m IS NOT NULL
;;
SELECT k, m.x FROM plays WHERE k < 5
;;
SELECT k, map_from_entries(list_filter(map_entries(m), lambda e: e.value > 4)) AS big FROM plays WHERE cardinality(m) > 1
;;
SELECT m['x'] AS x, m['y'] AS y, avg(n) AS a, count(*) AS c FROM plays WHERE 'x' IN map_keys(m) GROUP BY ROLLUP (m['x'], m['y']) HAVING count(*) > 2
;;
SELECT k FROM plays ORDER BY m['x'] DESC NULLS LAST, m['y'] ASC NULLS FIRST, k LIMIT 30
;;
SELECT typeof(m), typeof(s), typeof(tags), typeof(MAP {k: s}), typeof([s]), typeof({'m': m}) FROM plays WHERE k = 7
;;
-- ---------- unions and enums
SELECT k, union_value(num := n) AS u FROM plays WHERE k < 4
;;
SELECT k, union_tag(x.u) AS tag, x.u.num, x.u.str FROM (SELECT k, CASE WHEN ok THEN n::UNION(num INT, str VARCHAR) ELSE usr::UNION(num INT, str VARCHAR) END AS u FROM plays) AS x WHERE k < 40
;;
SELECT union_extract(u, 'b') AS b, count(*) AS c FROM (SELECT (CASE k % 2 WHEN 0 THEN kind2 ELSE NULL END)::UNION(a INT, b VARCHAR) AS u FROM (SELECT k, song[:2] AS kind2 FROM plays)) GROUP BY 1 ORDER BY ALL
;;
SELECT kind::ENUM('view', 'click', 'buy') AS e, count(*) AS c FROM events GROUP BY e ORDER BY e
;;
SELECT usr, max(kind::ENUM('view', 'click', 'buy'))::VARCHAR AS deepest, min(enum_code(kind::ENUM('view', 'click', 'buy'))) AS lo FROM events WHERE kind IS NOT NULL GROUP BY usr
;;
SELECT usr, kind FROM events ORDER BY kind::ENUM('view', 'buy', 'click') DESC NULLS LAST, usr, "at" LIMIT 40
;;
SELECT kind::ENUM('view', 'click') FROM events
;;
SELECT try_cast(kind AS ENUM('view', 'click')) AS e, count(*) FROM events GROUP BY ALL
;;
SELECT enum_range(NULL::ENUM('lo', 'mid', 'hi')) AS r, enum_first(NULL::ENUM('lo', 'mid', 'hi')) AS f, enum_last(NULL::ENUM('lo', 'mid', 'hi')) AS l, enum_range_boundary('lo'::ENUM('lo', 'mid', 'hi'), 'mid'::ENUM('lo', 'mid', 'hi')) AS b, count(*) AS c FROM songs
;;
SELECT genre::ENUM('jazz', 'pop', 'rock') < 'pop'::ENUM('jazz', 'pop', 'rock') AS before_pop, upper(genre::ENUM('jazz', 'pop', 'rock')) AS u, title FROM songs WHERE len > 250
;;
-- ---------- JSON
SELECT k, to_json(s) AS js, to_json(tags) AS jt, to_json(m)::VARCHAR AS jm FROM plays WHERE k < 25
;;
SELECT json_object('usr', usr, 'tags', tags, 'n', n) AS o, json_array(k, ok, NULL, price) AS a FROM plays WHERE k % 13 = 2
;;
SELECT usr, to_json(list(k ORDER BY k)) AS ks, json(json_group_array(1)::VARCHAR) AS ones FROM plays GROUP BY usr
;;
SELECT country, json_group_object(usr, rank) AS ranks FROM users GROUP BY country, usr
;;
SELECT country, to_json(list({'u': usr, 'r': rank} ORDER BY usr)) AS j FROM users WHERE rank > 3 GROUP BY country
;;
SELECT k, j ->> 'x' AS x, j -> 'y' AS y, j ->> '$.x' AS p, json_extract_string(j, ['x', 'y']) AS both, json_type(j), json_keys(j) FROM (SELECT k, to_json(s) AS j FROM plays WHERE s IS NOT NULL) WHERE k < 50
;;
SELECT k, (to_json(tags)->>0) AS first, to_json(tags)->'$[#-1]' AS last, json_array_length(to_json(tags)) AS l FROM plays WHERE (to_json(tags)->>0) = 'a'
;;
SELECT j.a, j.b[0], json_extract(j, '$.b[*]') AS stars, json_valid('{bad') AS bad, json_contains(j, '2') AS has2, json_structure(j) AS st, k FROM (SELECT k, ('{"a": ' || k || ', "b": [1, 2, {"c": null}]}')::JSON AS j FROM plays WHERE k < 5)
;;
SELECT from_json('{"a": [1, 2], "b": "' || usr || '"}', '{"a": ["INTEGER"], "b": "VARCHAR"}') AS f FROM users
;;
SELECT json_merge_patch('{"a": 1, "b": 2}', json_object('b', rank, 'c', name)) AS mp, json_quote(name) AS q FROM users WHERE rank IS NOT NULL
;;
SELECT row_to_json(r) FROM (SELECT usr, count(*) AS c FROM plays GROUP BY usr) AS r ORDER BY r.usr NULLS LAST
;;
SELECT k, u.value->>'$' AS val, u.key FROM plays, json_each(to_json(tags)) AS u WHERE k < 20
;;
-- ---------- texts
SELECT usr, name, upper(name) U, lower(name) L, length(name) AS len, strlen(name) AS bytes, reverse(name) AS rev, (upper(name[1]) || lower(name[2:])) AS initcap FROM users
;;
SELECT
  name, Strip_Accents(name),

  unicode(name), ord(name), ascii(name), chr(64 + rank::INT) AS ch, nfc_normalize(name) = name AS nfc FROM users ORDER BY usr
;;
SELECT usr, name[1] AS a, name[-1] AS z, name[2:3] AS mid, name[:-2] AS head, name[2:] AS tail, substr(name, -3) AS s3, substring(name FROM 2 FOR 2) AS sf, left(name, -1), right(name, 2), left(name, 0) FROM users
;;
SELECT name, substring_grapheme(name, 1, 2), length_grapheme(name), left_grapheme(name, 1), right_grapheme(name, 2), array_extract(name, 1) FROM users WHERE name SIMILAR TO '[ÇÅÉ].*'
;;
select 'x'.upper() as a, usr.upper().substr(1, 1).concat('-', usr[2:]).lpad(6, '*') as padded ,usr.replace('u','').concat('0') as tens from users
;;
SELECT usr.replace('u', '')::INT.abs() FROM users
;;
SELECT (usr.replace('u', '')::INT).mod(4) AS m4, usr.substr(2).lpad(3, '0').concat(':', country.lower().coalesce('?')) FROM users
;;
SELECT usr.upper().concat('!').repeat(2) AS u, country.lower().ifnull('none') AS c, rank.greatest(5) AS g FROM users
;;
SELECT concat(usr, NULL, n, ok) AS c, usr || NULL AS p, concat_ws('/', usr, NULL, song, n) AS w, concat_ws(NULL, usr, song) AS wn, usr || n || price AS upn FROM plays WHERE k < 30
;;
SELECT name FROM users WHERE name LIKE '_n%' OR name ILIKE 'B_B_' OR name NOT LIKE '%\_%' ESCAPE '\' AND name LIKE 'É%'
;;
SELECT t, t LIKE '10$%%' ESCAPE '$' AS pct, t LIKE 'a__b' AS under, t LIKE 'a\_\_b' ESCAPE '\' AS esc, t GLOB '[0-9]*' AS digit, t ILIKE '%PERCENT%' AS il FROM (VALUES ('10% off'), ('10 percent'), ('a__b'), ('axyb'), (NULL)) AS v(t), (SELECT count(*) AS c FROM songs) AS s
;;
SELECT song FROM plays WHERE song LIKE 's1' ESCAPE 'ab'
;;
SELECT usr, count(*) FROM plays WHERE usr GLOB 'u[1-3]' OR usr GLOB 'u1?' OR song GLOB '*9' GROUP BY usr
;;
SELECT name FROM users WHERE name SIMILAR TO '(A|b|d).*[0-3]' AND name NOT SIMILAR TO '.*a1' ORDER BY usr
;;
SELECT name ~~ 'A%' AS l, name !~~ 'A%' AS nl, name ~~* 'a%' AS il, name !~~* 'a%' AS nil, name ~~~ 'A*' AS gl, name ^@ 'A' AS sw, usr FROM users
;;
SELECT usr ~ 'u1' AS fullm, usr !~ 'u1.' AS nf, regexp_matches(usr, '1') AS part, regexp_full_match(usr, 'U\d+', 'i') AS fi, usr FROM users
;;
SELECT name, regexp_extract(name, '([^0-9]*)(\d)', 1) AS word, regexp_extract(name, '([^0-9]*)(\d)', ['w', 'd']) AS parts, regexp_extract(name, 'zz') AS none, regexp_extract(name, '(?i)[AEIOU]') AS vowel FROM users
;;
SELECT regexp_replace(name, '[aeiou]', '<\0>', 'g') AS g, regexp_replace(name, '[aeiou]', '#') AS one, regexp_replace(name, '[AEIOU]', '', 'gi') AS gi, regexp_replace(name, '^(.)(.*)$', '\2\1') AS rot, regexp_replace(name, '.', '*', 'l') AS lit FROM users
;;
SELECT regexp_extract_all(concat_ws(',', usr, song, n), '[a-z](\d+)', 1) AS nums, regexp_extract_all(song, '\d') AS digs, regexp_split_to_array(concat_ws(', ', usr, song), ',\s*') AS parts, regexp_escape('a.b*' || usr) AS esc FROM plays WHERE k < 30
;;
SELECT regexp_split_to_table(string_agg(genre, ' | ' ORDER BY song), '\s*\|\s*') AS g FROM songs
;;
SELECT count(*) FILTER (regexp_matches(title, '^t1', 'i')) AS i, count(*) FILTER (WHERE regexp_matches(title, '^t1', 'c')) AS c, count(*) FILTER (WHERE regexp_matches(title || chr(10) || genre, 'T.*p', 's')) AS s, count(*) FILTER (WHERE title ~ 'T[0-4]') AS t FROM songs
;;
SELECT regexp_matches(usr, '(unclosed') FROM users
;;
SELECT regexp_matches(usr, 'u', 'q') FROM users
;;
SELECT k, regexp_matches(usr, '^' || song[1:1] || 'u?' || (n % 3)) AS dyn, usr LIKE '%' || (abs(n) % 10)::VARCHAR AS likedyn FROM plays WHERE k < 100
;;
SELECT string_split(concat_ws(',', usr, song, kind), ',') AS parts, split_part(usr || '-' || song, '-', 2) AS p2, split_part(usr || '-' || song, '-', -1) AS pl, split_part(usr, 'zz', 5) AS none, str_split('', ',') AS e FROM (SELECT p.usr, song, e.kind FROM plays p JOIN events e ON p.usr = e.usr WHERE p.k < 10)
;;
SELECT printf('%s has %d plays (%5.1f%%)', usr, c, 100.0 * c / 200) AS line FROM (SELECT usr, count(*) AS c FROM plays WHERE usr IS NOT NULL GROUP BY usr) ORDER BY line
;;
SELECT format('{0}:{1:>4}|{1:<4}|{1:^4}|{0}', usr, rank) AS f, format('{:05d} {:+d} {:x} {:b}', rank, rank, rank, rank) AS n, format('{:.3f} {:e}', rank / 3, rank / 3) AS d, format('{{}} {}', name) AS b FROM users ORDER BY usr
;;
SELECT format('{} {}', usr) FROM users
;;
SELECT format('{:,}', a) AS th, printf('%08.2f|%-6d|%x|%c', f, b, b, 65) AS pf, format('{:t.d}', 1234567) AS sep, bar(b, 0, 255, 10) AS bar FROM nums WHERE id BETWEEN -10 AND 10
;;
SELECT lpad(usr, 5, 'ab'), rpad(usr, 5, '→'), lpad(usr, 1, '-'), trim('  ' || usr || E'\t '), ltrim(usr, 'u1'), rtrim(song, '0123456789'), trim(BOTH 's' FROM song || 's'), translate(usr, 'u123', 'Xab') FROM plays WHERE k BETWEEN 40 AND 70
;;
SELECT position('1' IN usr) AS p, strpos(usr, '2') AS s, instr(song, NULL) AS n, contains(usr, '') AS ce, starts_with(usr, 'u1'), suffix(song, '9'), prefix(song, 's'), ends_with(usr, '0') FROM plays WHERE k < 50
;;
SELECT levenshtein(a.name, b.name) AS lev, damerau_levenshtein(a.name, b.name) AS dl, round(jaro_winkler_similarity(a.name, b.name), 6) AS jw, round(jaccard(a.name, b.name), 6) AS jc, a.usr, b.usr AS other FROM users a JOIN users b ON a.usr < b.usr WHERE length(a.name) > 1 AND length(b.name) > 1 AND levenshtein(a.name, b.name) <= 2
;;
SELECT hamming('u1', usr) FROM users WHERE length(usr) = 2
;;
SELECT md5(usr) AS m, sha256(name)[:8] AS s, hex(name) AS h, bin(rank) AS b, to_base(rank::INT, 3) AS t, base64(encode(usr)) AS b64, decode(unhex(hex(name))) = name AS rt, from_hex('c387')::VARCHAR AS fh FROM users
;;
SELECT k, raw, octet_length(raw), hex(raw), raw::VARCHAR AS txt, raw || '\x41'::BLOB AS cat, base64(raw), md5(raw) FROM plays WHERE len(hex(raw)) > 2
;;
SELECT bit_count(b), b::BIT::VARCHAR AS bits, bitstring(right(bin(b), 4), 8)::TEXT AS bs, (b::BIT & 15::UTINYINT::BIT)::VARCHAR AS masked FROM nums WHERE id > 35
;;
SELECT name COLLATE NOCASE AS n, count(*) AS c FROM users GROUP BY ALL ORDER BY ALL
;;
SELECT usr, name FROM users ORDER BY name COLLATE NOCASE.NOACCENT NULLS LAST, usr
;;
SELECT usr, name FROM users WHERE name COLLATE NOACCENT < 'D' AND name COLLATE NOCASE = 'ANN' || right(name, 1) OR (name COLLATE NOACCENT) LIKE 'A%'
;;
SELECT a.usr, b.usr AS b FROM users a JOIN users b ON a.country COLLATE NOCASE = lower(b.country) AND a.usr < b.usr WHERE b.rank = 3
;;
SELECT name COLLATE klingon FROM users
;;
SELECT min(name COLLATE NOCASE) AS lo, max(lower(name)) AS hi, count(DISTINCT left(name, 1) COLLATE NOACCENT) AS d FROM users WHERE name IS NOT NULL
;;
SELECT usr, string_agg(kind, '>' ORDER BY "at") AS path, string_agg(DISTINCT kind, ',' ORDER BY kind) AS kinds, listagg(left(kind, 1), '' ORDER BY "at" DESC) FILTER (WHERE v > 50) AS big FROM events GROUP BY usr
;;
SELECT path, count(*) AS users FROM (SELECT usr, list(kind ORDER BY "at")[1:2] AS path FROM events GROUP BY usr) GROUP BY path ORDER BY users DESC, path
;;
SELECT day, string_agg(usr || ':' || coalesce(song, '∅'), '; ' ORDER BY usr, k) FILTER (WHERE ok) AS s FROM plays WHERE day IS NOT NULL GROUP BY day ORDER BY day
;;
SELECT usr, list({'at': "at", 'v': v} ORDER BY v DESC NULLS LAST, "at")[1] AS top, list(v ORDER BY "at").list_transform(lambda q, i: round(q * i, 2))[:3] AS scaled FROM events GROUP BY usr
;;
SELECT usr, list(kind ORDER BY "at").list_filter(lambda q: q = 'buy').len() AS buys, (list(v ORDER BY "at"))[-1] AS lastv FROM events GROUP BY usr HAVING buys > 2
;;
SELECT usr, "at", list(kind) OVER (PARTITION BY usr ORDER BY "at" ROWS 2 PRECEDING) AS last3, string_agg(kind, '') OVER (PARTITION BY usr ORDER BY "at") AS run FROM events WHERE usr IN ('u2', 'u5', 'u9')
;;
SELECT usr, "at", lag({'k': kind, 'v': v}) OVER w AS prev, first_value([kind]) OVER w AS f FROM events WINDOW w AS (PARTITION BY usr ORDER BY "at") QUALIFY (prev).k = 'buy' AND kind = 'view'
;;
-- ---------- CASE, COALESCE and NULLIF
SELECT k, coalesce(tags, [song], ['none']) AS t, coalesce(s, {'x': -1, 'y': usr}) AS s, coalesce(m, MAP {}) AS m, nullif(tags, []) AS nt, nullif(s, {'x': 1, 'y': 'p'}) AS ns FROM plays WHERE k < 80
;;
SELECT k, CASE WHEN len(tags) > 1 THEN tags WHEN ok THEN [usr, song] ELSE NULL END AS t, CASE s.y WHEN 'p' THEN s WHEN 'q' THEN {'x': k, 'y': 'new'} END AS c, IF(ok, [k], [n]) AS i FROM plays WHERE k >= 100
;;
SELECT k, CASE tags WHEN [] THEN 'none' WHEN ['a'] THEN 'just a' WHEN NULL THEN 'never' ELSE 'more' END AS what FROM plays ORDER BY k
;;
SELECT CASE WHEN ok THEN [k] ELSE {'k': k} END FROM plays
;;
SELECT coalesce(s, {'x': 0}) FROM plays WHERE k < 5
;;
SELECT greatest(tags, ['b']) AS g, least(s, {'x': 4, 'y': 'q'}) AS l, greatest([k], [n]) AS gl FROM plays WHERE k < 45
;;
SELECT count(*) FILTER (WHERE s IS NULL) AS null_s, count(*) FILTER (WHERE s.x IS NULL AND s.y IS NULL) AS both, count(s) AS c, count(s.x) AS cx, count(tags) AS ct, count(tags[1]) AS ct1, sum(len(tags)) AS total FROM plays
;;
SELECT k FROM plays WHERE s IN ({'x': 1, 'y': 'p'}, {'x': 2, 'y': NULL}, NULL) OR tags IN (['a'], ['b', NULL], [])
;;
SELECT k FROM plays WHERE s NOT IN (SELECT s FROM plays WHERE k < 5 AND s IS NOT NULL) AND k < 60
;;
(SELECT s FROM plays WHERE ok) INTERSECT (SELECT s FROM plays WHERE NOT ok) ORDER BY s
;;
SELECT tags FROM plays WHERE k < 100 EXCEPT SELECT tags FROM plays WHERE k >= 100
;;
SELECT tags AS v FROM plays WHERE k < 6 UNION ALL SELECT l::VARCHAR[] FROM nums WHERE id BETWEEN 0 AND 5 UNION ALL SELECT [usr, name] FROM users WHERE rank = 1
;;
SELECT x FROM (SELECT {'a': 1, 'b': 'q'} AS x UNION ALL SELECT {'b': song, 'a': 2} FROM songs WHERE len > 300)
;;
SELECT UNNEST(['a', 'b', 'c']) AS c, unnest([1, 2]) AS i FROM songs WHERE song = 's3'
;;
SELECT COLUMNS('^(s|tags)$') FROM plays WHERE k BETWEEN 5 AND 15
;;
SELECT max(COLUMNS(lambda c: c LIKE '%a%')) FROM users
;;
SELECT lower(COLUMNS(lambda c: c IN ('name', 'country'))) FROM users ORDER BY ALL
;;
SELECT k, list_filter([COLUMNS(['n', 'k'])], lambda z: z > 10) FROM plays WHERE k < 12
;;
SELECT k, [*COLUMNS('^(n|k)$')] AS both, coalesce(*COLUMNS('usr|song')) AS either FROM plays WHERE k < 30
;;
SELECT usr, 'it''s' AS q, $$dollar 'quoted'$$ AS d, $t$a$$b$t$ AS dd, E'tab\tnl\n\x41\u00e9' AS esc, 'a'
  'b' AS adjacent FROM users WHERE rank < 5
;;
SELECT "Usr", "NAME" AS "na""me", UsErS."cOuNtRy" AS " c " FROM Users WHERE "RANK" IS NOT NULL ORDER BY " c ", "na""me" NULLS FIRST, 1
;;
FROM plays SELECT k, s.y.upper() AS y, tags.list_sort()[1] AS lo WHERE s.y = 'r' AND tags.len() > 0
;;
FROM (FROM nums SELECT id, unnest(l) AS e) SELECT e, list(id ORDER BY id) AS ids GROUP BY e ORDER BY e NULLS LAST
;;
SELECT first_letter: left(name, 1), who: list(usr ORDER BY usr), n: count(*) FROM users GROUP BY ALL ORDER BY first_letter NULLS FIRST
;;
SELECT struct_extract((k, n), 2) AS b, struct_extract_at(s, 1) AS x, ({'x y': k})."x y" AS q, ({'Sel': n}).sel AS ci FROM plays WHERE k % 20 = 0
;;
SELECT make_date(year := 2024, month := 5, day := 1), k FROM plays
;;
SELECT k, list_sort(tags, 'sideways') FROM plays
;;
WITH RECURSIVE w(usr, rest, parts) AS (
  SELECT usr, name, []::VARCHAR[] FROM users WHERE rank > 7
  UNION ALL
  SELECT usr, rest[2:], list_append(parts, rest[1]) FROM w WHERE rest <> ''
)
SELECT usr, parts FROM w WHERE rest = ''
;;
WITH bag AS (SELECT usr, list_distinct(flatten(list(tags))) AS t FROM plays WHERE usr IS NOT NULL AND tags IS NOT NULL GROUP BY usr)
SELECT a.usr, b.usr AS peer, len(list_intersect(a.t, b.t)) AS common FROM bag a JOIN bag b ON a.usr < b.usr AND list_has_any(a.t, b.t)
WHERE len(list_intersect(a.t, b.t)) >= 4
;;
WITH words AS (SELECT usr, unnest(string_split(name, '')) AS c FROM users) SELECT c, count(*) AS n, string_agg(usr, ' ' ORDER BY usr) AS who FROM words WHERE c SIMILAR TO '[[:alpha:]]' GROUP BY c HAVING n > 1
;;
SELECT p.song, g.title, list_sort(list(DISTINCT p.s.y)) AS ys, {'n': sum(p.n), 'c': count(*)} AS st FROM plays p JOIN songs g USING (song) GROUP BY p.song, g.title HAVING (st).c > 6
;;
SELECT * FROM (SELECT usr, kind, v FROM events WHERE kind IS NOT NULL) PIVOT (list(round(v) ORDER BY v) FOR kind IN ('buy', 'view') GROUP BY usr) ORDER BY usr LIMIT 8
;;
SELECT k, name, value FROM (SELECT k, usr, song, s.y AS y FROM plays WHERE k < 12) UNPIVOT INCLUDE NULLS (value FOR name IN (usr, song, y))
;;
SELECT k, map_entries(m)[1].key AS k1, (s).x AS px, (tags)[1].upper() AS t1, m['x'].abs() AS ax FROM plays WHERE map_keys(m)[1] IS NOT NULL AND k > 120
;;
SELECT {'a': [{'b': MAP {'c': [k, n]}}]}['a'][1].b['c'][2] AS dug, [[['deep']]][1][1][1][2:3] AS ee, ([k, n] || [0])[3] AS zero FROM plays WHERE k < 9
;;
SELECT usr, list_transform(list(song ORDER BY k), lambda x, i: i || '.' || coalesce(x, usr)).array_to_string(' ') AS playlist FROM plays WHERE usr IS NOT NULL GROUP BY usr
;;
SELECT t.e.q AS q, t.e.w AS w FROM (SELECT unnest([{'q': usr, 'w': n}, {'q': song, 'w': -n}]) AS e FROM plays WHERE k < 14) t ORDER BY t.e NULLS LAST
;;
SELECT id, l, id IN l AS has, len(l) IN (SELECT rank FROM users WHERE rank < 3) AS r, (SELECT max(len(z.l)) FROM nums z WHERE z.l[1] = nums.l[1]) AS longest FROM nums WHERE abs(id) < 15
;;
SELECT min(s.y || s.x), max(concat(s.x, s.y)), string_agg(DISTINCT s.y, '' ORDER BY s.y DESC), bool_or(s.x > 7), sum(s.x) FILTER (WHERE s.y <> 'p'), avg(len(tags)) FROM plays
;;
SELECT s.y AS y, usr, sum(s.x) AS sx FROM plays WHERE usr IN ('u1', 'u2', 'u3') GROUP BY CUBE (s.y, usr) ORDER BY ALL
;;
SELECT upper(usr => 'x') FROM users
;;
SELECT text 'abc' || usr AS t, VARCHAR 'q' AS v, usr::CHAR(1) AS c, cast(name AS TEXT)[2:-2] AS core FROM users
;;
SELECT string_to_array('a,b,' || usr, ',') AS a, list_extract([usr, name], 2) AS e, list_element([usr], -1) AS el, array_pop_back([usr, name]) AS pb, array_pop_front([usr, name]) AS pf, array_push_front([usr], name) AS pu FROM users
;;
SELECT k, hash(s) = hash(s) AS h, hash([k]) <> hash([k + 1]) AS d, s = s AS se, tags = tags AS te, m = m AS me, row(NULL, k) = row(NULL, k) AS re FROM plays WHERE k < 35
;;
SELECT url_encode(name || ' &' || country) AS u, url_decode('%C3%85sa') AS d, parse_filename('/a/' || usr || '.csv', true) AS f, parse_path('a/b/' || usr) AS pp, format_bytes(rank * 1024) AS fb, formatReadableDecimalSize(rank * 1000) AS fd FROM users ORDER BY usr
;;
SELECT k, tags, usr FROM plays ORDER BY tags DESC NULLS LAST, s ASC NULLS FIRST, usr NULLS LAST, k LIMIT 50
;;
SELECT count(DISTINCT tags), count(DISTINCT s), count(DISTINCT (usr, s.x)), count(DISTINCT m), count(DISTINCT [ok, NULL]), approx_count_distinct(s.y) FROM plays
;;
SELECT first(tags ORDER BY k), last(s ORDER BY k), any_value(m ORDER BY k), arg_max(tags, n ORDER BY k), arg_min(s, price), max(tags, 2), min(s, 2) FROM plays WHERE k < 150
;;
SELECT CASE WHEN name = '' THEN NULL ELSE nullif(trim(name, '0123456789'), '') END AS stem, count(*), list(DISTINCT right(name, 1) ORDER BY right(name, 1)) FROM users GROUP BY stem ORDER BY stem COLLATE NOCASE NULLS LAST
;;
SELECT max(usr[-1]) FROM plays
;;
SELECT count(DISTINCT usr[2]) FROM plays
;;
SELECT usr[2], count(*) OVER () FROM plays WHERE k < 2
;;
SELECT usr[-1] AS g, count(*), max(tags[-1]), string_agg(usr[2], '' ORDER BY k) FROM plays GROUP BY g
;;
SELECT median(usr[-1]::INTEGER), max(k), count(DISTINCT usr) FROM plays
;;
SELECT list(l[id] ORDER BY id) FROM nums
;;
SELECT 1 AS i, tags[i] AS x, k FROM plays
;;
SELECT k, tags[(SELECT count(*) FROM users WHERE usr = 'u1')] FROM plays WHERE k < 10
;;
SELECT usr, list(k ORDER BY k)[count(*)] AS x FROM plays GROUP BY usr ORDER BY usr
;;
SELECT list(k ORDER BY k)[count(*)] AS x FROM plays
;;
SELECT usr, [10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 110, 120, 130, 140, 150, 160, 170, 180, 190, 200, 1, 2, 3, 4, 5][count(*)] AS x FROM plays GROUP BY usr ORDER BY usr
;;
SELECT 1 AS i, tags[i] AS x, k FROM plays WHERE k < 10 ORDER BY k
;;
SELECT 1 AS i, tags[i + 1] AS x, k FROM plays WHERE k < 10 ORDER BY k
;;
SELECT len(tags) AS n, tags[n] AS x, k FROM plays WHERE k < 10 ORDER BY k
;;
SELECT count(*) AS n, list(k ORDER BY k)[n] AS x, usr FROM plays GROUP BY usr ORDER BY usr
;;
SELECT k, tags[i] AS x FROM (SELECT 1 AS i, tags, k FROM plays) WHERE k < 10 ORDER BY k
;;
WITH c AS (SELECT 2 AS i) SELECT k, tags[c.i] AS x, tags[(SELECT i FROM c)] AS y FROM plays, c WHERE k < 10 ORDER BY k
;;
SELECT k, tags[row_number() OVER (PARTITION BY usr ORDER BY k)] AS x FROM plays ORDER BY k
;;
SELECT k, tags[1 + 1] AS x, tags[length('ab')] AS y, tags[year(DATE '0002-01-01')] AS z, tags[2 - 1] AS w, tags[-1] AS v, tags[- 1] AS u, tags[- (1)] AS t, tags[(1)] AS s FROM plays WHERE k < 10 ORDER BY k
;;
SELECT k, tags[CASE WHEN ok THEN 1 ELSE 2 END] AS x, tags[coalesce(n % 2, 1) + 1] AS y, tags[k % 2 + 1] AS z, tags[if(ok, 1, 2)] AS w FROM plays WHERE k < 10 ORDER BY k
;;
SELECT k, tags[day(now()::DATE) * 0 + 1] AS x, tags[date_diff('day', current_date, current_date) + 1] AS y FROM plays WHERE k < 10 ORDER BY k
;;
SELECT k, tags[length(usr)] AS x, tags[strlen(usr) - 1] AS y, usr[length(usr)] AS z FROM plays WHERE k < 10 ORDER BY k
;;
SELECT k FROM plays WHERE tags[length(usr) - 1] = 'a' ORDER BY k
;;
SELECT tags[length(usr) - 1] AS t, count(*) FROM plays GROUP BY tags[length(usr) - 1] ORDER BY 1
;;
SELECT tags[length(usr) - 1] AS t, count(*) AS c, max(tags[length(usr)]) AS m FROM plays GROUP BY ALL HAVING max(tags[length(usr)]) > 'a' ORDER BY 1
;;
SELECT list_transform([1, 2], lambda i: tags[i]) AS x, [tags[i] FOR i IN [1, 2]] AS y, [tags[length(usr)] FOR i IN [1]] AS z FROM plays WHERE k < 10
;;
SELECT p.k, p.tags[length(u.usr)] AS x, p.tags[u.rank % 3] AS y FROM plays p JOIN users u ON u.usr = p.usr WHERE length(u.usr) = 2 ORDER BY 1
;;
SELECT u.usr, (SELECT max(p.tags[length(u.usr)]) FROM plays p WHERE p.usr = u.usr) AS x FROM users u ORDER BY 1
;;
SELECT k, m[length(usr)::VARCHAR] AS x, map {2: 'a', 3: 'b'}[length(usr)] AS y, map {1: 'a', 2: 'b'}[count(*) OVER (PARTITION BY usr) % 3] AS z FROM plays ORDER BY k
;;
SELECT usr, map {1: 'a', 2: 'b', 5: 'c', 6: 'd'}[count(*)] AS y FROM plays GROUP BY usr ORDER BY usr
;;
SELECT json('[1, 2, 3]')[1] AS x, '[1, 2, 3]'::JSON[0] AS y, to_json(tags)[1] AS z, to_json(tags)[length(usr) - 1] AS w, to_json(tags)->0 AS v, to_json(tags)->(length(usr)) AS q FROM plays WHERE k < 10
;;
SELECT (1, 'a')[1] AS x, ROW(k, usr)[2] AS y, ((k, usr))[1] AS z FROM plays WHERE k < 10
;;
SELECT k, raw[1] AS x FROM plays WHERE k < 5
;;
SELECT k, (raw::BIT)[1] AS x FROM plays WHERE k < 5
;;
SELECT array_value(1, 2, 3)[2] AS x, [1, 2, 3]::INTEGER[3][1] AS y, array_value(k, n)[length(usr) - 1] AS z FROM plays WHERE k < 9
;;
SELECT usr, first(tags ORDER BY k)[count(*) // 4] AS x, max(tags)[count(DISTINCT song) % 2 + 1] AS y FROM plays GROUP BY usr HAVING max(tags)[count(*) % 2 + 1] IS NOT NULL ORDER BY usr, max(tags)[count(*) % 2 + 1]
;;
SELECT usr FROM plays GROUP BY usr ORDER BY ['q', 'w', 'a', 'z', 'x', 's', 'd', 'c', 'v', 'f', 'r', 't', 'g', 'b', 'h', 'n'][count(*)], usr
;;
SELECT usr, count(*) AS c, rank() OVER (ORDER BY ['q', 'w', 'a', 'z', 'x', 's', 'd', 'c', 'v', 'f', 'r', 't', 'g', 'b', 'h', 'n'][count(*)]) AS r FROM plays GROUP BY usr
;;
SELECT k, tags[length(usr)] AS x, count(*) OVER () AS c FROM plays ORDER BY ALL
;;
SELECT k, tags[count(*) OVER (PARTITION BY k)] AS x FROM plays ORDER BY ALL
;;
SELECT k, tags[1] AS x, count(*) OVER (PARTITION BY usr) AS c FROM plays ORDER BY ALL
;;
SELECT k, tags[1] AS x, m['x'] AS y, map {1: k}[1] AS z, row_number() OVER (ORDER BY k) AS c FROM plays QUALIFY c < 9 ORDER BY ALL
;;
SELECT id, l[1] AS x, sum(l[2]) OVER (ORDER BY id) AS y FROM nums ORDER BY ALL
;;
SELECT list_transform(l, lambda x: l[1]) AS x, count(*) OVER () AS y FROM nums ORDER BY id
;;
SELECT length(usr) AS n, tags[n] AS x, k FROM plays ORDER BY k
;;
SELECT length(usr) - 1 AS n, tags[n] AS x, max(tags[n]) OVER (PARTITION BY n) AS y, k FROM plays ORDER BY k
;;
SELECT length(usr) - 1 AS n, tags[n] AS x, count(*) FROM plays GROUP BY n, tags[n] ORDER BY ALL
;;
SELECT length(usr) - 1 AS n, max(tags[n]) AS x FROM plays GROUP BY n ORDER BY ALL
;;
SELECT t[1] AS x, n FROM (SELECT length(usr) - 1 AS n, max(tags) AS t FROM plays GROUP BY n) WHERE t[n] IS NOT NULL ORDER BY ALL
;;
SELECT t[n] AS x FROM (SELECT length(usr) - 1 AS n, tags AS t FROM plays) ORDER BY ALL
;;
SELECT count(*) FROM (SELECT 1 AS n, tags AS t FROM plays) WHERE t[n] = 'a'
;;
SELECT t[n] AS x, count(*) FROM (SELECT 1 AS n, tags AS t FROM plays) GROUP BY ALL ORDER BY ALL
;;
WITH c AS (SELECT 1 AS n, tags AS t, usr FROM plays) SELECT c.t[c.n] AS x, u.rank FROM c JOIN users u ON u.usr = c.usr ORDER BY ALL
;;
SELECT tags[(SELECT min(rank) + 1 FROM users)] AS x, count(*) FROM plays GROUP BY 1 ORDER BY ALL
;;
SELECT u.usr, (SELECT p.tags[u.rank] FROM plays p WHERE p.usr = u.usr ORDER BY k LIMIT 1) AS x FROM users u ORDER BY 1
;;
SELECT tags[k] AS x FROM plays WHERE k = 1
;;
SELECT tags[k] AS x FROM plays WHERE k IN (1, 2, 3) ORDER BY k
;;
SELECT tags[k] AS x, usr[k] AS y FROM plays WHERE k = 2 AND usr = 'u16'
;;
SELECT k, tags[n] AS x, count(*) OVER () AS c FROM plays
;;
SELECT k, tags[abs(n)] AS x, count(*) OVER () AS c FROM plays
;;
SELECT k, usr[n] AS x, row_number() OVER (ORDER BY k) AS c FROM plays
;;
SELECT string_agg(tags[n], ',' ORDER BY k) AS x FROM plays
;;
SELECT median(l[b]) AS x FROM nums
;;
SELECT list(l[id % 3] ORDER BY id) AS x FROM nums
;;
SELECT list(l[id] ORDER BY id) AS x FROM nums
;;
SELECT usr, count(DISTINCT tags[n]) AS x FROM plays GROUP BY usr ORDER BY usr
;;
SELECT DISTINCT tags[n] AS x FROM plays ORDER BY 1
;;
SELECT tags[n] AS x, count(*) FROM plays GROUP BY 1 ORDER BY 1
;;
WITH RECURSIVE r AS (SELECT 1 AS i, tags[1] AS t FROM plays WHERE k = 3 UNION ALL SELECT i + 1, (SELECT tags[r.i] FROM plays WHERE k = 3) FROM r WHERE i < 4) SELECT * FROM r ORDER BY 1
;;
SELECT * FROM (SELECT k, n, tags FROM plays ORDER BY k LIMIT 20) WHERE tags[n] IS NULL ORDER BY k
;;
SELECT k, tags[n] AS x FROM (SELECT k, n, tags FROM plays ORDER BY k LIMIT 20) ORDER BY k
;;
SELECT struct_pack(COLUMNS('k|n')) FROM plays
;;
SELECT struct_pack("of a" := song, COLUMNS('^k$'), m := n) FROM plays ORDER BY k
;;
SELECT struct_pack(name, *COLUMNS('b.*')) AS s, count(*) FROM users GROUP BY ALL
