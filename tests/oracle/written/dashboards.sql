SELECT tag, usr FROM (SELECT unnest(tags) AS tag, usr FROM plays) UNION SELECT song, usr FROM plays WHERE song IN (SELECT song FROM songs WHERE genre = 'jazz') EXCEPT SELECT 'a', usr FROM users
;;
SELECT usr FROM (SELECT usr, unnest(tags) AS t FROM plays) GROUP BY usr HAVING count(*) > (SELECT avg(c) FROM (SELECT usr, count(*) AS c FROM (SELECT usr, unnest(tags) FROM plays) GROUP BY usr))
;;
WITH x AS (SELECT usr, unnest(list_distinct(list(song))) AS song FROM plays GROUP BY usr), y AS (SELECT song, count(*) AS c FROM x GROUP BY song), z AS (SELECT x.usr, sum(y.c) AS s FROM x JOIN y USING (song) GROUP BY x.usr) SELECT z.usr, z.s, rank() OVER (ORDER BY z.s DESC) AS r FROM z WHERE z.s > (SELECT avg(s) FROM z) ORDER BY r, usr
;;
WITH RECURSIVE d AS (SELECT DATE '2024-05-01' AS d UNION ALL SELECT (d + INTERVAL 1 DAY)::DATE FROM d WHERE d < DATE '2024-05-09'), f AS (SELECT day, usr, count(*) AS c FROM plays GROUP BY day, usr), g AS (SELECT d.d, u.usr FROM d CROSS JOIN (SELECT DISTINCT usr FROM f WHERE usr IN ('u1', 'u2')) u) SELECT g.d, g.usr, coalesce(f.c, 0) AS c, sum(coalesce(f.c, 0)) OVER (PARTITION BY g.usr ORDER BY g.d) AS run FROM g LEFT JOIN f ON f.day = g.d AND f.usr = g.usr ORDER BY ALL
;;
SELECT x.usr, x.tag, count(DISTINCT y.song) AS songs FROM (SELECT usr, unnest(tags) AS tag FROM plays) x JOIN plays y ON y.usr = x.usr AND y.ok GROUP BY ALL HAVING count(DISTINCT y.song) > 2
;;
SELECT usr, c, 'p' AS src FROM (SELECT usr, count(*) AS c FROM plays GROUP BY usr) WHERE c > 9 UNION ALL BY NAME SELECT 'e' AS src, usr, count(*) AS c FROM events GROUP BY usr HAVING count(*) > 15 ORDER BY ALL
;;
SELECT * FROM (SELECT usr, max(n) AS n FROM plays GROUP BY usr) a POSITIONAL JOIN (SELECT 1 AS z WHERE false) b WHERE a.n > 48
;;
SELECT (SELECT list(DISTINCT t ORDER BY t) FROM (SELECT unnest(p.tags) AS t)) AS ts, p.k FROM plays p WHERE p.k < 15
;;
SELECT p.k, (SELECT string_agg(t, '' ORDER BY t) FROM unnest(p.tags) AS x(t)) AS s, (SELECT count(*) FROM unnest(p.tags) x(t) WHERE t = 'a') AS a FROM plays p WHERE list_contains(p.tags, 'a')
;;
SELECT k, n, sum(n) OVER w AS a, max(n) OVER w2 AS b FROM plays WINDOW w AS (PARTITION BY usr ORDER BY k), w2 AS (w ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)
;;
SELECT usr, sum(c) OVER w AS s, (SELECT count(*) FROM users u WHERE u.usr = t.usr) AS k FROM (SELECT usr, day, count(*) AS c FROM plays GROUP BY usr, day) t WINDOW w AS (PARTITION BY usr ORDER BY day) QUALIFY row_number() OVER w = 1
;;
SELECT u.usr, (SELECT max(s) FROM (SELECT sum(p.n) OVER w AS s FROM plays p WHERE p.usr = u.usr WINDOW w AS (ORDER BY p.k)) x) AS peak, row_number() OVER w AS r FROM users u WINDOW w AS (ORDER BY u.usr)
;;
SELECT u.usr, row_number() OVER w AS r FROM users u WHERE u.usr IN (SELECT usr FROM (SELECT usr, row_number() OVER w AS r FROM events WINDOW w AS (PARTITION BY usr ORDER BY v DESC, "at")) x WHERE r = 12) WINDOW w AS (ORDER BY u.usr)
;;
SELECT u.usr, row_number() OVER w AS r FROM users u WHERE u.usr IN (SELECT usr FROM events WINDOW w AS (PARTITION BY usr ORDER BY v DESC, "at") QUALIFY row_number() OVER w = 12) WINDOW w AS (ORDER BY u.usr)
;;
WITH a AS (SELECT usr, row_number() OVER w AS r FROM users WINDOW w AS (ORDER BY usr DESC)), b AS (SELECT usr, row_number() OVER w AS r FROM users WINDOW w AS (ORDER BY usr)) SELECT a.usr, a.r, b.r AS rb, sum(a.r) OVER w AS s FROM a JOIN b USING (usr) WINDOW w AS (ORDER BY b.r)
;;
SELECT * FROM (SELECT *, count(*) OVER (PARTITION BY usr) AS c FROM (SELECT k, usr, song FROM plays)) WHERE c BETWEEN 5 AND 6 AND usr IN (SELECT usr FROM (SELECT *, count(*) OVER (PARTITION BY country) AS cc FROM users) WHERE cc > 4)
;;
SELECT DISTINCT * EXCLUDE (u.usr) FROM (SELECT usr, ok FROM plays) p JOIN (SELECT usr, country FROM users) u ON u.usr = p.usr
;;
SELECT country, count(*) AS c FROM (SELECT * EXCLUDE (u.usr) FROM plays p JOIN users u ON u.usr = p.usr) GROUP BY country ORDER BY c DESC
;;
SELECT usr, count(*) AS c FROM (SELECT * EXCLUDE (u.usr) FROM plays p JOIN users u ON u.usr = p.usr) GROUP BY usr ORDER BY c DESC, usr LIMIT 5
;;
SELECT date_trunc(CASE WHEN kind = 'buy' THEN 'day' ELSE 'month' END, "at") AS d, count(*) AS c FROM events GROUP BY 1 ORDER BY 1
;;
SELECT date_diff(CASE WHEN kind = 'buy' THEN 'hour' ELSE 'day' END, TIMESTAMP '2024-05-01', "at") AS d, kind FROM events WHERE usr = 'u4'
;;
SELECT tags[2:] AS a, tags[:-2] AS b, tags[-2:] AS c, tags[1:3:2] AS d, array_slice(tags, 1, 2) AS e, usr[2:] AS f, usr[:1] AS g, tags[len(tags)] AS h, tags[0] AS i, (tags || tags)[2] AS j FROM plays WHERE k < 25
;;
SELECT to_json(list({'usr': usr, 'c': c, 'first': f} ORDER BY usr)) AS j FROM (SELECT usr, count(*) AS c, min("at") AS f FROM events WHERE usr < 'u12' GROUP BY usr)
;;
SELECT x.key AS k, x.value AS v FROM (SELECT to_json({'a': count(*), 'b': sum(n)}) AS j FROM plays) t, json_each(t.j) x
;;
SELECT usr, regexp_replace(usr, '(u)(\d)', '\1-\2', 'g') AS a, regexp_replace(usr, 'U', 'x', 'gi') AS b, regexp_extract(usr, '\d+')::INT AS c, usr ~ '1' AS d, usr !~ '1' AS e FROM users
;;
SELECT usr, sum(n) AS s FROM plays WHERE usr = ANY (SELECT usr FROM users WHERE country = 'FR') GROUP BY usr
;;
SELECT usr, sum(n) AS s FROM plays WHERE usr <> ALL (SELECT usr FROM users WHERE country IN ('FR', 'DE')) GROUP BY usr
;;
SELECT usr, n FROM plays WHERE n >= ALL (SELECT n FROM plays WHERE n IS NOT NULL)
;;
SELECT k FROM plays WHERE (usr, song) NOT IN (SELECT usr, song FROM plays WHERE ok AND usr IS NOT NULL AND song IS NOT NULL)
;;
SELECT k FROM plays WHERE n IN (SELECT rank * 5 FROM users) AND NOT (n IN (SELECT id FROM nums WHERE b > 100))
;;
SELECT usr IN (SELECT usr FROM events WHERE kind = 'buy' AND v > 80) AS hot, count(*) AS c FROM plays GROUP BY 1
;;
SELECT usr IN (SELECT usr FROM events WHERE kind = 'buy' AND v > 80 UNION ALL SELECT NULL) AS hot, count(*) AS c FROM plays GROUP BY hot
;;
SELECT count(*) FILTER (WHERE n > (SELECT avg(n) FROM plays)) AS above, sum(n - (SELECT min(n) FROM plays)) AS shifted, (SELECT max(n) FROM plays) - max(n) AS zero FROM plays WHERE day > (SELECT min(day) FROM plays)
;;
SELECT usr, round((count(*) - (SELECT avg(c) FROM (SELECT count(*) AS c FROM plays GROUP BY usr))) / (SELECT stddev_pop(c) FROM (SELECT count(*) AS c FROM plays GROUP BY usr)), 4) AS z FROM plays GROUP BY usr ORDER BY z DESC, usr LIMIT 6
;;
SELECT a.usr, a.day, a.n FROM plays a JOIN (SELECT usr, max(day) AS md FROM plays GROUP BY usr) b ON a.usr = b.usr AND a.day = b.md LEFT JOIN songs s ON s.song = a.song WHERE s.genre IS NULL OR s.genre <> 'pop' ORDER BY a.usr, a.k
;;
SELECT day, sum(CASE WHEN rn = 1 THEN 1 ELSE 0 END) AS new_users, sum(CASE WHEN rn > 1 THEN 1 ELSE 0 END) AS returning FROM (SELECT usr, day, row_number() OVER (PARTITION BY usr ORDER BY day) AS rn FROM (SELECT DISTINCT usr, day FROM plays WHERE usr IS NOT NULL AND day IS NOT NULL)) GROUP BY day ORDER BY day
;;
WITH d AS (SELECT DISTINCT usr, day FROM plays WHERE usr IS NOT NULL AND day IS NOT NULL) SELECT a.day, count(DISTINCT b.usr) AS wau FROM (SELECT DISTINCT day FROM d) a JOIN d b ON b.day BETWEEN a.day - 6 AND a.day GROUP BY a.day ORDER BY a.day
;;
WITH d AS (SELECT usr, day, count(*) AS c FROM plays GROUP BY usr, day), s AS (SELECT usr, day, c, c - lag(c) OVER (PARTITION BY usr ORDER BY day) AS diff FROM d) SELECT sign(diff) AS sgn, count(*) AS n, sum(diff) AS t FROM s GROUP BY sgn ORDER BY sgn NULLS FIRST
;;
SELECT "at"::DATE AS d, hour("at") AS h, count(*) AS c FROM events GROUP BY ROLLUP (d, h) HAVING d IS NOT NULL OR h IS NULL ORDER BY d, h LIMIT 20
;;
SELECT country, sum(c) FILTER (WHERE kind = 'buy') AS buy, sum(c) FILTER (WHERE kind = 'view') AS view_, sum(c) AS total FROM (SELECT u.country, e.kind, count(*) AS c FROM events e LEFT JOIN users u ON u.usr = e.usr GROUP BY 1, 2) GROUP BY ROLLUP (country) ORDER BY country NULLS LAST, total
;;
SELECT list(struct_pack(d := day, s := s) ORDER BY day) AS series FROM (SELECT day, sum(n) AS s FROM plays GROUP BY day)
;;
SELECT usr, max(streak) AS best FROM (SELECT usr, count(*) AS streak FROM (SELECT usr, day, day - (row_number() OVER (PARTITION BY usr ORDER BY day))::INT AS g FROM (SELECT DISTINCT usr, day FROM plays WHERE day IS NOT NULL)) GROUP BY usr, g) GROUP BY usr ORDER BY best DESC, usr
;;
WITH a AS (SELECT usr, "at", kind, row_number() OVER (PARTITION BY usr ORDER BY "at") AS rn FROM events), b AS (SELECT x.usr, x.kind AS k1, y.kind AS k2, y."at" - x."at" AS gap FROM a x JOIN a y ON x.usr = y.usr AND y.rn = x.rn + 1), c AS (SELECT k1, k2, count(*) AS c, max(gap) AS mx, median(epoch(gap)) AS med FROM b GROUP BY ALL), d AS (SELECT *, row_number() OVER (PARTITION BY k1 ORDER BY c DESC, mx) AS r FROM c) SELECT k1, k2, c, mx, med FROM d WHERE r <= 2 ORDER BY k1, r
;;
WITH base AS (SELECT p.*, u.country, s.genre FROM plays p LEFT JOIN users u USING (usr) LEFT JOIN songs s USING (song)), agg AS (SELECT country, genre, count(*) AS c, sum(price) AS rev FROM base GROUP BY country, genre), tot AS (SELECT country, sum(rev) AS crev FROM agg GROUP BY country), fin AS (SELECT a.country, a.genre, a.c, a.rev, round(a.rev / t.crev * 100, 2) AS pct FROM agg a JOIN tot t ON a.country IS NOT DISTINCT FROM t.country) SELECT * FROM fin QUALIFY row_number() OVER (PARTITION BY country ORDER BY rev DESC NULLS LAST) = 1
;;
WITH days AS (SELECT unnest(generate_series(DATE '2024-05-01', DATE '2024-05-09', INTERVAL 1 DAY))::DATE AS d), usrs AS (SELECT usr FROM users WHERE country = 'TR'), g AS (SELECT * FROM days, usrs), f AS (SELECT usr, day AS d, sum(price) AS p FROM plays GROUP BY 1, 2), x AS (SELECT g.usr, g.d, f.p FROM g LEFT JOIN f ON f.usr = g.usr AND f.d = g.d), y AS (SELECT usr, d, p, last_value(p IGNORE NULLS) OVER (PARTITION BY usr ORDER BY d) AS filled, count(p) OVER (PARTITION BY usr ORDER BY d) AS grp FROM x) SELECT *, first_value(p) OVER (PARTITION BY usr, grp ORDER BY d) AS filled2 FROM y ORDER BY usr, d
;;
WITH m AS (SELECT usr, date_trunc('month', born)::DATE AS mo FROM users), bounds AS (SELECT min(mo) AS lo, max(mo) AS hi FROM m), spine AS (SELECT unnest(generate_series(lo::TIMESTAMP, hi::TIMESTAMP, INTERVAL 1 MONTH))::DATE AS mo FROM bounds) SELECT year(s.mo) AS y, count(m.usr) AS c, sum(count(m.usr)) OVER (ORDER BY year(s.mo)) AS run FROM spine s LEFT JOIN m ON m.mo = s.mo GROUP BY 1 ORDER BY 1
;;
SELECT b.lo, b.hi, count(p.k) AS c FROM (SELECT range AS lo, range + 20 AS hi FROM range(-60, 60, 20)) b LEFT JOIN plays p ON p.n >= b.lo AND p.n < b.hi GROUP BY b.lo, b.hi ORDER BY b.lo
;;
SELECT b.name, count(*) AS c, sum(p.n) AS s FROM plays p JOIN (VALUES ('low', -50, -1), ('mid', 0, 24), ('top', 25, 50)) AS b(name, lo, hi) ON p.n BETWEEN b.lo AND b.hi GROUP BY b.name ORDER BY min(b.lo)
;;
WITH params AS (SELECT DATE '2024-05-02' AS d1, DATE '2024-05-06' AS d2, 'DE' AS c) SELECT u.usr, count(*) AS c FROM plays p JOIN users u USING (usr), params WHERE p.day BETWEEN params.d1 AND params.d2 AND u.country = params.c GROUP BY u.usr ORDER BY 1
;;
WITH o AS (SELECT usr, "at", v, sum(v) OVER (PARTITION BY usr ORDER BY "at") AS run, sum(v) OVER (PARTITION BY usr) AS tot FROM events WHERE v IS NOT NULL) SELECT usr, min("at") FILTER (WHERE run >= tot / 2) AS half_at, count(*) AS c FROM o GROUP BY usr ORDER BY usr
;;
WITH c AS (SELECT song, count(*) AS c FROM plays WHERE song IS NOT NULL GROUP BY song), p AS (SELECT song, c, sum(c) OVER (ORDER BY c DESC, song) AS run, sum(c) OVER () AS tot FROM c) SELECT song, c, CASE WHEN run <= tot * 0.5 THEN 'A' WHEN run <= tot * 0.8 THEN 'B' ELSE 'C' END AS abc FROM p ORDER BY c DESC, song
;;
SELECT usr, "at", kind, count(*) FILTER (WHERE kind = 'buy') OVER (PARTITION BY usr ORDER BY "at" ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS prior_buys FROM events
;;
SELECT usr, dense_rank() OVER (ORDER BY sum(n) DESC NULLS LAST) AS r, percent_rank() OVER (ORDER BY sum(n) NULLS FIRST) AS pr FROM plays GROUP BY usr
;;
SELECT DISTINCT usr, first_value(song) OVER (PARTITION BY usr ORDER BY k) AS f, last_value(song) OVER (PARTITION BY usr ORDER BY k ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS l FROM plays
;;
SELECT DISTINCT kind, count(*) OVER (PARTITION BY kind) AS c FROM events ORDER BY c DESC
;;
SELECT DISTINCT ON (country) country, usr, sum(n) AS s FROM plays JOIN users USING (usr) GROUP BY country, usr ORDER BY country, s DESC NULLS LAST, usr
;;
SELECT DISTINCT ON (date_trunc('day', "at")) date_trunc('day', "at") AS d, usr, v FROM events WHERE v IS NOT NULL ORDER BY date_trunc('day', "at"), v DESC
;;
SELECT usr, max_by(kind, "at") AS last_kind, min_by(kind, "at") AS first_kind, max_by("at", v) AS best_at, arg_max(kind, "at", 3) AS last3, max(v, 2) AS top2, min("at", 2) AS first2 FROM events GROUP BY usr
;;
SELECT usr, arg_max({'at': "at", 'kind': kind}, "at") AS last_event, arg_max(struct_pack(k := kind, v := v), "at").k AS kk FROM events GROUP BY usr
;;
SELECT kind, approx_count_distinct(usr) > 0 AS a, count(DISTINCT usr) AS c, count(DISTINCT date_trunc('day', "at")) AS d, entropy(kind) AS e, round(kurtosis(v), 4) AS kurt, round(skewness(v), 4) AS sk FROM events GROUP BY kind
;;
SELECT round(corr(n, price), 6) AS c, round(covar_pop(n, k), 4) AS cp, round(regr_slope(n, k), 8) AS sl, round(regr_intercept(n, k), 6) AS ic, regr_count(n, k) AS rc, round(regr_r2(n, k), 8) AS r2 FROM plays
;;
SELECT usr, round(sum(v * n) / nullif(sum(n), 0), 3) AS wavg FROM (SELECT usr, v, extract(hour FROM "at") AS n FROM events) GROUP BY usr
;;
SELECT strftime("at", '%Y-%m') AS ym, monthname("at") AS mn, dayname("at") AS dn, quarter("at") AS q, last_day("at") AS ld, count(*) AS c FROM events GROUP BY ALL ORDER BY ALL
;;
SELECT time_bucket(INTERVAL '6 hours', "at") AS b, count(*) AS c FROM events GROUP BY b ORDER BY b
;;
SELECT time_bucket(INTERVAL '2 days', day, DATE '2024-05-02') AS b, sum(n) AS s FROM plays GROUP BY 1 ORDER BY 1 NULLS FIRST
;;
SELECT epoch_ms("at") AS ms, epoch("at") AS s, make_timestamp(epoch_us("at")) = "at" AS same, to_timestamp(epoch("at")) AS t, age(TIMESTAMP '2024-06-01', "at") AS a, date_sub('hour', "at", TIMESTAMP '2024-05-11') AS h FROM events WHERE usr = 'u5'
;;
SELECT usr, "at" + to_hours(3) AS a, "at" + INTERVAL (len(kind)) DAY AS b, "at" - INTERVAL '1 month 2 days' AS c, date_add("at", INTERVAL 90 MINUTE) AS d, "at"::TIME AS e, "at"::DATE + 7 AS f FROM events WHERE kind IS NOT NULL
;;
SELECT strptime('2024-05-' || lpad((k % 28 + 1)::VARCHAR, 2, '0') || ' 10:20', '%Y-%m-%d %H:%M') AS t, make_date(2024, (k % 12 + 1)::INT, 1) AS d, try_cast(usr AS INTEGER) AS ti, try_strptime(usr, '%Y') AS ts FROM plays
;;
SELECT date_part(['year', 'month', 'day'], day) AS p, count(*) FROM plays GROUP BY 1
;;
SELECT extract(dow FROM day) AS dow, extract(week FROM day) AS wk, extract(isoyear FROM day) AS iy, extract(doy FROM day) AS doy, extract(yearweek FROM day) AS yw, count(*) FROM plays GROUP BY ALL
;;
SELECT date_diff('week', DATE '2024-01-01', day) AS w, datediff('month', DATE '2023-05-09', day) AS m, day - DATE '2024-05-01' AS d, date_sub('month', DATE '2023-05-09', day) AS ms FROM plays WHERE k < 40
;;
SELECT current_date > DATE '2020-01-01' AS a, day < current_date AS b, now() > "at" AS c, date_trunc('year', now()) >= TIMESTAMPTZ '2024-01-01 00:00:00+00' AS d, count(*) FROM plays GROUP BY ALL
;;
SELECT tz::DATE AS d, (tz AT TIME ZONE 'Asia/Kolkata')::DATE AS kd, hour(tz) AS h, date_trunc('hour', tz) AS th, strftime(tz, '%H:%M') AS f, tz + INTERVAL 1 DAY AS nx, epoch(tz) AS e FROM nums
;;
SELECT tz > TIMESTAMPTZ '2024-05-05 12:00:00+03' AS late, tz BETWEEN '2024-05-02' AND '2024-05-04' AS b, count(*) FROM nums GROUP BY 1, 2
;;
SELECT format('{:>5}|{:.2f}|{}', usr, price::DOUBLE, n) AS f, printf('%05d-%s', k, usr) AS p, concat(usr, NULL, '-', song) AS c, usr || '-' || song AS cc, concat_ws('|', usr, song, NULL, day) AS cw FROM plays
;;
SELECT usr, regexp_extract_all(name, '[a-z]') AS a, regexp_split_to_array(name, '[0-9]') AS b, string_to_array(name, 'n') AS c, list_aggr(string_split(name, ''), 'string_agg', '.') AS d, replace(name, 'A', 'a') AS e, lpad(name, 8, '*') AS f, instr(name, 'n') AS g, ascii(name) AS h, chr(65 + rank) AS i FROM users
;;
SELECT (x ->> '$.a.b')::INT AS b, x -> 'a' ->> 'c' AS c, json_array_length(x, '$.l') AS l, json_extract(x, '$.l[0]') AS l0, json_type(x, '$.a') AS t, json_valid(x) AS v FROM (SELECT json_object('a', json_object('b', n, 'c', usr), 'l', tags) AS x FROM plays)
;;
SELECT j.key, j.value FROM (SELECT to_json({'n': n, 'u': usr}) AS x FROM plays WHERE k < 5) t, json_each(t.x) j
;;
SELECT usr, to_json(list({'k': k, 'n': n} ORDER BY k)) AS plays FROM plays GROUP BY usr ORDER BY usr
;;
SELECT json_group_array(json_object('usr', usr, 'c', c)) FROM (SELECT usr, count(*) AS c FROM plays WHERE usr = 'u1' GROUP BY usr)
;;
SELECT json_merge_patch(json_object('a', k), json_object('b', usr)) AS j, json_array(k, usr, ok) AS a, from_json(json_object('x', k), '{"x":"BIGINT"}').x AS x FROM plays WHERE k < 10
;;
SELECT k, list_sort(list_distinct(list_concat(tags, ['z']))) AS a, tags[1] AS b, tags[-1] AS c, tags[1:2] AS d, len(tags) AS e, array_to_string(tags, ',') AS f, list_contains(tags, 'a') AS g, list_position(tags, 'b') AS h, unnest(tags) AS t FROM plays
;;
SELECT id, unnest(l) AS x, generate_subscripts(l, 1) AS i FROM nums
;;
SELECT id, t.x, t.i FROM nums, unnest(l) WITH ORDINALITY AS t(x, i)
;;
SELECT id, x, row_number() OVER (PARTITION BY id) AS c FROM (SELECT id, unnest(list_sort(l)) AS x FROM nums) QUALIFY count(*) OVER (PARTITION BY id) = 1
;;
SELECT id, list_sum(l) AS s, (SELECT sum(x) FROM unnest(l) AS u(x)) AS s2, (SELECT max(x) FROM (SELECT unnest(l) AS x)) AS mx FROM nums
;;
SELECT id, list(y ORDER BY y) AS ys FROM (SELECT id, unnest(l) * 10 AS y FROM nums) WHERE y > 10 GROUP BY id HAVING count(*) > 1
;;
SELECT kind, list(usr ORDER BY v DESC NULLS LAST, usr, "at")[1:3] AS top3, list(DISTINCT usr[2:] ORDER BY usr[2:]) AS ids FROM events GROUP BY kind
;;
SELECT map_from_entries([('a', k), ('b', n)]) AS m, MAP {'u': usr, 's': song} AS m2, map_concat(m, MAP {'q': 1}) AS m3 FROM plays WHERE k < 20
;;
SELECT country, sum(e.c) AS c, map_from_entries(list((usr, e.c) ORDER BY usr)) AS per FROM users u JOIN (SELECT usr, count(*) AS c FROM events GROUP BY usr) e USING (usr) GROUP BY country
;;
SELECT k FROM plays EXCEPT ALL SELECT id FROM nums INTERSECT SELECT rank FROM users ORDER BY k DESC LIMIT 3
;;
SELECT usr FROM plays INTERSECT ALL SELECT usr FROM events ORDER BY usr
;;
SELECT c, count(*) AS n FROM (SELECT usr AS c FROM plays UNION SELECT song FROM plays UNION SELECT kind FROM events) GROUP BY c HAVING c IS NOT NULL ORDER BY c LIMIT 12
;;
WITH x AS (SELECT usr, 1 AS w FROM plays UNION ALL SELECT usr, 2 FROM events), y AS (SELECT usr, sum(w) AS w FROM x GROUP BY usr) SELECT * FROM y WHERE w > (SELECT avg(w) FROM y) ORDER BY w DESC, usr
;;
WITH a AS MATERIALIZED (SELECT usr, count(*) AS c FROM plays GROUP BY usr), b AS NOT MATERIALIZED (SELECT * FROM a WHERE c > 5) SELECT a.usr, b.c FROM a LEFT JOIN b ON a.usr = b.usr
;;
WITH a(u, c) AS (SELECT usr, count(*) FROM plays GROUP BY usr), b(u) AS (SELECT u FROM a WHERE c > 10) SELECT (SELECT count(*) FROM a) AS na, (SELECT count(*) FROM b) AS nb, (SELECT max(c) FROM a WHERE u IN (FROM b)) AS m
;;
SELECT usr, GROUPING(usr) AS g, coalesce(usr, CASE GROUPING(usr) WHEN 1 THEN 'TOTAL' ELSE 'NULL' END) AS label, sum(n) AS s, round(sum(n) * 100.0 / sum(CASE WHEN GROUPING(usr) = 1 THEN sum(n) END) OVER (), 2) AS pct FROM plays GROUP BY ROLLUP (usr) ORDER BY g, label
;;
SELECT year(day) AS y, month(day) AS m, day, sum(n) AS s, count(DISTINCT usr) AS u FROM plays GROUP BY ROLLUP (y, m, day) ORDER BY ALL
;;
SELECT ok, usr, count(*) AS c FROM plays GROUP BY ok, ROLLUP (usr) HAVING GROUPING(usr) = 1 OR count(*) > 4 ORDER BY ok, usr, c
;;
SELECT count(*) FILTER (WHERE day = DATE '2024-05-03') AS today, count(*) FILTER (WHERE day = DATE '2024-05-03' - 1) AS yesterday, round(100.0 * (today - yesterday) / nullif(yesterday, 0), 1) AS chg FROM plays
;;
SELECT usr, sum(n) AS total, total / 2 AS half, CASE WHEN half > 10 THEN 'A' WHEN half > 0 THEN 'B' ELSE 'C' END AS grade FROM plays GROUP BY usr HAVING total IS NOT NULL QUALIFY row_number() OVER (ORDER BY total DESC, usr) <= 10 ORDER BY grade, half DESC, usr
;;
SELECT k, n AS k2, k2 + 1 AS k3, sum(k3) OVER (ORDER BY k) AS run FROM plays WHERE k3 > 10 QUALIFY run > 100
;;
SELECT date_trunc('day', "at") AS d, kind, count(*) AS c FROM events WHERE d >= '2024-05-03' GROUP BY d, kind HAVING c >= 5 ORDER BY d, kind
;;
SELECT usr AS song, song AS usr, count(*) AS c FROM plays GROUP BY usr, song HAVING count(*) > 1
;;
SELECT lower(usr) AS usr, count(*) AS c FROM plays GROUP BY lower(usr) ORDER BY usr
;;
SELECT n // 10 AS n, count(*) AS c FROM plays GROUP BY n // 10 ORDER BY n
;;
SELECT -n AS n FROM plays WHERE n IS NOT NULL ORDER BY n, k LIMIT 5
;;
SELECT k, -n AS n FROM plays ORDER BY n + 1 NULLS LAST, k LIMIT 5
;;
SELECT usr, count(*) AS n FROM plays GROUP BY usr HAVING n > 8 ORDER BY n DESC, usr
;;
SELECT usr, max(n) AS n FROM plays WHERE n > 0 GROUP BY usr HAVING max(n) > 30
;;
SELECT COLUMNS('^(k|usr|n)$') FROM plays WHERE k < 10
;;
SELECT sum(COLUMNS(['k', 'n'])) AS "sum_\0", count(*) FROM plays
;;
SELECT usr, round(avg(COLUMNS(* EXCLUDE (usr, "at", kind))), 3) FROM events GROUP BY usr
;;
SELECT * EXCLUDE (tags, s, m, raw) REPLACE (coalesce(n, 0) AS n, upper(usr) AS usr) FROM plays WHERE k BETWEEN 5 AND 15 ORDER BY ALL
;;
SELECT * RENAME (usr AS user_id) FROM users ORDER BY user_id LIMIT 4
;;
FROM plays SELECT usr, count() AS c WHERE ok GROUP BY ALL ORDER BY c DESC, usr
;;
FROM (FROM events WHERE kind = 'buy') b JOIN users u USING (usr) SELECT u.country, round(sum(b.v)) AS v GROUP BY 1
;;
SELECT usr, k FROM plays WHERE ok UNION ALL BY NAME SELECT usr, kind FROM events WHERE kind = 'buy'
;;
SELECT 'plays' AS src, day AS d, count(*) AS c FROM plays GROUP BY ALL UNION ALL SELECT 'events', "at"::DATE, count(*) FROM events GROUP BY ALL ORDER BY d NULLS LAST, src
;;
SELECT metric, value FROM (UNPIVOT (SELECT count(*) AS rows, count(DISTINCT usr) AS users, count(n) AS n FROM plays) ON rows, users, n INTO NAME metric VALUE value)
;;
SELECT usr, q, val FROM (SELECT usr, count(*) FILTER (WHERE kind = 'buy') AS buy, count(*) FILTER (WHERE kind = 'view') AS view_ FROM events GROUP BY usr) UNPIVOT (val FOR q IN (buy, view_)) ORDER BY usr, q
;;
SELECT k, col, v FROM (SELECT k, n::BIGINT AS n, s.x AS x FROM plays) UNPIVOT INCLUDE NULLS (v FOR col IN (n, x)) WHERE k < 30
;;
PIVOT events ON kind USING count(*) GROUP BY usr
;;
SELECT * FROM (PIVOT (SELECT day, ok, n FROM plays WHERE day IS NOT NULL) ON ok USING sum(n) AS s, count(*) AS c GROUP BY day) ORDER BY day
;;
WITH src AS (SELECT u.country, strftime(e."at", '%d') AS dd, e.v FROM events e JOIN users u USING (usr)) PIVOT src ON dd IN ('01', '02', '03') USING round(sum(v), 2) GROUP BY country ORDER BY country
;;
WITH src AS (SELECT country, kind FROM events JOIN users USING (usr)), pv AS (SELECT * FROM src PIVOT (count(*) FOR kind IN ('buy', 'click'))) SELECT country, buy, click, buy > click AS more FROM pv
;;
SELECT usr, "2024-05-01", "2024-05-02" FROM (PIVOT (SELECT usr, day::VARCHAR AS d, n FROM plays) ON d IN ('2024-05-01', '2024-05-02') USING sum(n) GROUP BY usr)
;;
SELECT country, list_transform(list(rank ORDER BY usr), lambda r: coalesce(r, 0) * 2) AS l, list_sum(list_filter(list(rank), lambda r: r > 3)) AS s FROM users GROUP BY country
;;
SELECT usr, list_reduce(list(coalesce(n, 0) ORDER BY k), lambda a, b: a + b) AS s, sum(coalesce(n, 0)) AS t FROM plays GROUP BY usr
;;
SELECT usr, [x FOR x IN list(n ORDER BY k) IF x > 0] AS pos, list_aggregate(list(n), 'max') AS mx FROM plays GROUP BY usr
;;
SELECT k, s.x, s.y, struct_pack(a := k, b := usr) AS st, row(k, n) AS r, {'a': s.x}.a AS sx FROM plays WHERE k < 20
;;
SELECT s.y AS y, sum(s.x) AS x, max(s) AS ms FROM plays GROUP BY s.y ORDER BY y
;;
SELECT m['x'] AS mx, m['nope'] AS nope, map_keys(m).list_sort() AS ks, map_values(m) AS vs, cardinality(m) AS c, element_at(m, 'y') AS ey FROM plays
;;
SELECT usr, sum(m['x']) AS x, max(m['y']) AS y FROM plays GROUP BY usr
;;
SELECT usr, histogram(kind) AS h, map_extract(histogram(kind), 'buy') AS b, histogram(kind)['view'] AS v FROM events GROUP BY usr
;;
SELECT (usr, day) AS p, count(*) FROM plays GROUP BY (usr, day) HAVING count(*) > 1
;;
SELECT k FROM plays WHERE (usr, song) IN (SELECT usr, song FROM plays GROUP BY usr, song HAVING count(*) > 1)
;;
SELECT k, n FROM plays p WHERE n > ALL (SELECT n FROM plays q WHERE q.usr = p.usr AND q.k <> p.k AND q.n IS NOT NULL) ORDER BY k
;;
SELECT k FROM plays WHERE n >= ANY (SELECT max(n) FROM plays GROUP BY day) ORDER BY k
;;
SELECT k FROM plays WHERE 'a' = ANY(tags) AND NOT ('b' = ANY(tags)) ORDER BY k
;;
SELECT k FROM plays WHERE list_has_any(tags, (SELECT list(DISTINCT usr[2:2]) || ['a'] FROM users WHERE country = 'DE'))
;;
SELECT k, n FROM plays ORDER BY abs(n) DESC NULLS LAST, k LIMIT 5 OFFSET 3
;;
SELECT usr, c FROM (SELECT usr, count(*) AS c FROM plays GROUP BY usr ORDER BY c DESC, usr LIMIT 10) ORDER BY c, usr LIMIT 3
;;
SELECT usr FROM users ORDER BY usr LIMIT (SELECT count(*) // 10 FROM plays WHERE ok)
;;
SELECT k FROM plays ORDER BY k DESC FETCH FIRST 3 ROWS ONLY
;;
SELECT k FROM plays ORDER BY k LIMIT 5%
;;
SELECT usr, count(*) AS c FROM plays GROUP BY usr ORDER BY CASE WHEN usr = 'u7' THEN 0 WHEN usr IS NULL THEN 2 ELSE 1 END, c DESC, usr LIMIT 6
;;
SELECT usr, sum(n) AS s FROM plays GROUP BY usr ORDER BY (SELECT name FROM users u WHERE u.usr = plays.usr), usr
;;
SELECT (SELECT country FROM users u WHERE u.usr = p.usr) AS country, count(*) AS c FROM plays p GROUP BY 1 ORDER BY 1
;;
SELECT country, count(*) AS c FROM (SELECT (SELECT country FROM users u WHERE u.usr = p.usr) AS country FROM plays p) GROUP BY ALL
;;
SELECT p.usr, sum(p.n) AS s FROM plays p GROUP BY p.usr HAVING sum(p.n) > (SELECT coalesce(sum(e.v), 0) / 30 FROM events e WHERE e.usr = p.usr)
;;
SELECT u.usr, CASE WHEN EXISTS (SELECT 1 FROM plays p WHERE p.usr = u.usr AND p.n > 45) THEN 'hi' WHEN EXISTS (SELECT 1 FROM events e WHERE e.usr = u.usr AND e.v > 98) THEN 'ev' ELSE 'no' END AS what FROM users u
;;
SELECT count(*) FROM users u WHERE (SELECT count(*) FROM plays p WHERE p.usr = u.usr) > (SELECT count(*) FROM events e WHERE e.usr = u.usr)
;;
SELECT p.usr, p.day, p.n, p.n - avg(p.n) OVER (PARTITION BY p.usr)::DECIMAL(10, 3) AS dev, abs(p.n) > 2 * stddev_pop(p.n) OVER () AS outlier FROM plays p WHERE p.n IS NOT NULL
;;
SELECT k, sum(n) OVER w AS s, avg(n) OVER (w ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)::DECIMAL(10, 2) AS a, count(*) OVER w AS c FROM plays WINDOW w AS (PARTITION BY usr ORDER BY k)
;;
SELECT usr, day, sum(c) OVER (PARTITION BY usr ORDER BY day RANGE BETWEEN INTERVAL 3 DAY PRECEDING AND CURRENT ROW) AS last3 FROM (SELECT usr, day, count(*) AS c FROM plays WHERE day IS NOT NULL GROUP BY ALL) ORDER BY usr, day
;;
WITH plays AS (SELECT * FROM plays WHERE ok), users AS (SELECT * FROM users WHERE country = 'DE') SELECT u.usr, count(p.k) AS c FROM users u LEFT JOIN plays p ON p.usr = u.usr GROUP BY u.usr ORDER BY u.usr
;;
WITH events AS (SELECT usr, kind, v FROM events WHERE kind = 'buy'), plays AS (SELECT k, usr FROM plays WHERE usr IN (SELECT usr FROM events WHERE v > 50)) SELECT usr, count(*) AS c FROM plays GROUP BY usr
;;
WITH a AS (WITH b AS (SELECT usr, n FROM plays WHERE n > 0) SELECT usr, sum(n) AS s FROM b GROUP BY usr), b AS (SELECT usr, s FROM a WHERE s > 40) SELECT (SELECT count(*) FROM a) AS ca, (SELECT count(*) FROM b) AS cb, (SELECT sum(s) FROM b) AS sb
;;
WITH t AS (SELECT usr, n FROM plays) SELECT * FROM (WITH t AS (SELECT usr, max(n) AS n FROM t GROUP BY usr) SELECT t.usr, t.n FROM t WHERE n > 30) x ORDER BY usr, n
;;
SELECT plays.name, p.k FROM users plays JOIN plays p ON p.usr = plays.usr WHERE plays.country = 'TR' ORDER BY p.k
;;
SELECT usr.k, usr.usr FROM plays usr WHERE usr.k < 5
;;
SELECT main.plays.k, plays.usr FROM main.plays WHERE main.plays.k < 5 ORDER BY main.plays.k
;;
SELECT e2.usr, count(*) AS c FROM events e1 LEFT JOIN events e2 ON e1.usr = e2.usr AND e2.kind = 'buy' AND e2.v > 95 GROUP BY e2.usr
;;
SELECT DISTINCT e2.usr FROM events e1 LEFT JOIN events e2 ON e1.usr = e2.usr AND e2.v > 97
;;
SELECT DISTINCT e2.usr, count(*) OVER (PARTITION BY e2.usr) AS c FROM events e1 LEFT JOIN events e2 ON e1.usr = e2.usr AND e2.v > 97
;;
SELECT usr, count(*) AS c, count(e1.v) AS a, count(e2.v) AS b FROM (SELECT * FROM events WHERE kind = 'buy') e1 FULL JOIN (SELECT * FROM events WHERE kind = 'view') e2 USING (usr) GROUP BY usr
;;
SELECT coalesce(a.usr, b.usr) AS usr, a.c, b.c AS d FROM (SELECT usr, count(*) AS c FROM events WHERE v > 90 GROUP BY usr) a FULL JOIN (SELECT usr, count(*) AS c FROM events WHERE v < 10 GROUP BY usr) b ON a.usr = b.usr
;;
SELECT a.usr FROM events a ANTI JOIN (SELECT * FROM events WHERE kind = 'buy' AND v > 60) b ON a.usr = b.usr GROUP BY a.usr
;;
SELECT usr, "at" FROM events WHERE kind = 'buy' EXCEPT SELECT usr, "at" FROM events WHERE v > 20
;;
SELECT usr FROM events WHERE kind = 'buy' INTERSECT ALL SELECT usr FROM events WHERE kind = 'view'
;;
SELECT k, n FROM plays WHERE n IS NOT NULL EXCEPT SELECT n, k FROM plays ORDER BY k LIMIT 5
;;
SELECT k FROM plays UNION SELECT n FROM plays UNION ALL SELECT id FROM nums WHERE id < -43 ORDER BY k LIMIT 7
;;
SELECT usr FROM plays UNION ALL SELECT usr FROM events EXCEPT SELECT usr FROM users WHERE country = 'TR' ORDER BY 1
;;
SELECT usr FROM plays UNION (SELECT usr FROM events INTERSECT SELECT usr FROM users WHERE country = 'TR') ORDER BY 1
;;
SELECT k, price AS x FROM plays WHERE k < 3 UNION ALL SELECT id, a FROM nums WHERE id BETWEEN 0 AND 2 UNION ALL SELECT 1, 2.5 ORDER BY ALL
;;
SELECT DISTINCT ON (usr) usr, k, n FROM plays ORDER BY n DESC NULLS LAST, k LIMIT 3
;;
SELECT DISTINCT ON (usr) usr, k, n FROM plays WHERE usr IS NOT NULL ORDER BY usr DESC, n, k DESC LIMIT 4 OFFSET 2
;;
SELECT DISTINCT usr, song FROM plays ORDER BY song NULLS LAST, usr DESC LIMIT 6
;;
SELECT DISTINCT upper(usr) AS u FROM plays ORDER BY upper(usr) DESC NULLS LAST LIMIT 3
;;
SELECT ok, count(DISTINCT usr) AS u, count(DISTINCT song) AS s, count(DISTINCT day) FILTER (WHERE n > 0) AS d, sum(n) AS t, grouping(ok) AS g FROM plays GROUP BY ROLLUP (ok)
;;
SELECT n % 3 AS g, count(DISTINCT n % 3) AS a, sum(DISTINCT n % 3) FILTER (WHERE ok) AS b, count(DISTINCT n) AS c FROM plays GROUP BY ROLLUP (n % 3)
;;
SELECT usr, ok, list(DISTINCT song ORDER BY song) FILTER (WHERE song IS NOT NULL) AS l, string_agg(DISTINCT song, ',' ORDER BY song DESC) AS sa, first(k ORDER BY n DESC, k) AS fk, count(*) AS c FROM plays GROUP BY CUBE (usr, ok) HAVING count(*) > 5
;;
SELECT kind, avg("at"::TIME) AS t, avg("at") AS a, median("at") AS m, min("at"::TIME) AS mt FROM events GROUP BY kind
;;
SELECT avg(day) AS a, median(day) AS m, mode(day) IS NOT NULL AS mo, quantile_disc(day, 0.3) AS q, avg(ok::INT) AS o, sum(ok::INT) AS so FROM plays
;;
SELECT tags, count(*) AS c, max(k) AS m FROM plays GROUP BY tags HAVING count(*) > 2
;;
SELECT s, count(*) AS c, count(DISTINCT tags) AS t, count(DISTINCT m) AS mm FROM plays GROUP BY s HAVING count(*) > 2
;;
SELECT usr, arg_max(tags, k) AS t, arg_min(s, k) AS s, max(tags) AS mt, min(s) AS ms, list(m ORDER BY k)[1] AS m1 FROM plays GROUP BY usr
;;
SELECT usr, round(sum(price) * 1.1, 2) AS a, sum(price) / count(price) AS b, round(avg(price), 3) AS c, sum(n * 1.5) AS d, sum(CASE WHEN ok THEN 1 ELSE 0.5 END) AS e, sum(price::DECIMAL(18, 4)) AS f FROM plays GROUP BY usr
;;
SELECT sum((SELECT rank FROM users u WHERE u.usr = p.usr)) AS s, count(*) FILTER (WHERE EXISTS (SELECT 1 FROM events e WHERE e.usr = p.usr AND e.v > 95)) AS c, sum(CASE WHEN p.usr IN (SELECT usr FROM users WHERE country = 'DE') THEN 1 ELSE 0 END) AS de FROM plays p
;;
SELECT p.day, count(*) FILTER (WHERE p.usr IN (SELECT usr FROM users WHERE country = 'FR')) AS fr, sum((SELECT count(*) FROM events e WHERE e.usr = p.usr AND e."at"::DATE = p.day)) AS ev FROM plays p GROUP BY p.day ORDER BY p.day
;;
SELECT usr, count(*) AS c, (SELECT count(*) FROM users) AS n, count(*) * 1.0 / (SELECT count(*) FROM plays) AS r FROM plays GROUP BY usr HAVING count(*) > (SELECT count(*) FROM users) / 3
;;
SELECT p.k, x.i, x.i * p.n AS y FROM plays p, range(3) x(i) WHERE p.k < 4 ORDER BY p.k, x.i
;;
SELECT p.k, g.i FROM plays p, LATERAL generate_series(1, abs(p.n) % 4) g(i) WHERE p.k < 12
;;
SELECT d.d, count(p.k) AS c FROM generate_series(DATE '2024-05-01', DATE '2024-05-09', INTERVAL 1 DAY) d(d) LEFT JOIN plays p ON p.day = d.d::DATE AND p.ok GROUP BY d.d ORDER BY d.d
;;
SELECT h, count(e.usr) AS c FROM range(0, 24, 6) r(h) LEFT JOIN events e ON hour(e."at") >= h AND hour(e."at") < h + 6 GROUP BY h ORDER BY h
;;
/* superset */ SELECT usr /* the user */ AS u, -- comment
count(*) AS c FROM plays /*+ hint */ WHERE usr <> '--x' AND usr <> '/*' GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 3 -- end
;;
SELECT usr FROM users WHERE name <> '$1' AND usr <> '?' AND name <> ':p' AND name <> 'it''s' AND usr < 'u2' ORDER BY usr;
;;
SELECT 'a''b' AS a, $$x'y$$ AS b, E'tab\there' AS c, '😀é' AS d, 'line
two' AS e, '%s {x} $1 ?' AS f, usr FROM users WHERE usr = 'u1'
;;
SELECT k, usr FROM plays ORDER BY k LIMIT 0
;;
SELECT k FROM plays ORDER BY k OFFSET 195
;;
SELECT k FROM plays ORDER BY k LIMIT NULL OFFSET 190
;;
SELECT k FROM plays ORDER BY k LIMIT ALL
;;
SELECT k FROM plays ORDER BY -k LIMIT 1 + 2 OFFSET 2 * 2
;;
SELECT usr, "at" + v::INT * INTERVAL 1 MINUTE AS a, "at" + to_days(2) AS b, INTERVAL (v::INT) HOURS AS c, "at"::DATE + v::INT AS d, date_trunc('hour', "at" + INTERVAL '30 minutes') AS e FROM events WHERE usr = 'u2' AND v IS NOT NULL
;;
WITH RECURSIVE chain(k, nxt, depth) AS (SELECT k, k + 7, 1 FROM plays WHERE k < 3 UNION ALL SELECT p.k, p.k + 7, c.depth + 1 FROM chain c JOIN plays p ON p.k = c.nxt WHERE c.depth < 5) SELECT depth, count(*) AS c, sum(k) AS s FROM chain GROUP BY depth ORDER BY depth
;;
SELECT k, lag(n) OVER (ORDER BY k) AS a, lead(n, 2, -1) OVER (ORDER BY k) AS b, n - lag(n, 1, 0) OVER (PARTITION BY usr ORDER BY k) AS c, row_number() OVER (ORDER BY n NULLS FIRST, k) AS d FROM plays QUALIFY d BETWEEN 50 AND 60
;;
SELECT usr, sum(n) AS s, rank() OVER (ORDER BY sum(n) DESC NULLS LAST) AS r, sum(sum(n)) FILTER (WHERE sum(n) > 0) OVER () AS pos, lag(sum(n)) OVER (ORDER BY usr) AS prev FROM plays GROUP BY usr HAVING count(*) > 4 QUALIFY r <= 8 ORDER BY r, usr
;;
SELECT k, random() AS a, random() AS b FROM plays WHERE k < 0 ORDER BY b
;;
SELECT usr, count(*) AS c FROM plays WHERE k < 0 GROUP BY usr UNION ALL SELECT 'none', count(*) FROM plays WHERE k < 0
;;
SELECT * FROM (SELECT usr, "at", kind, v, lag(v) OVER (PARTITION BY usr ORDER BY "at") AS pv FROM events) t WHERE t.usr IN ('u1', 'u4') AND t.v > t.pv AND t.kind = 'buy'
;;
SELECT x.country, x.c, y.c AS all_c FROM (SELECT country, count(*) AS c FROM users GROUP BY country) x, (SELECT count(*) AS c FROM users) y WHERE x.c * 3 > y.c ORDER BY x.country
;;
SELECT e.usr, e.kind, e.v, s.avg_v FROM events e JOIN (SELECT usr, round(avg(v), 3) AS avg_v FROM events GROUP BY usr) s ON s.usr = e.usr WHERE e.v > s.avg_v * 1.8
;;
SELECT o.usr FROM (SELECT usr, count(*) AS c FROM events GROUP BY usr) o JOIN (SELECT max(c) AS m FROM (SELECT count(*) AS c FROM events GROUP BY usr)) m ON o.c = m.m
;;
SELECT k, s.* FROM plays WHERE k < 9
;;
SELECT u: usr, c: count(*) FROM plays GROUP BY 1 ORDER BY c DESC, u LIMIT 3
;;
SELECT p.k FROM p: plays WHERE p.k < 4
;;
SELECT day FROM plays WHERE k < 9 UNION ALL SELECT "at" FROM events WHERE usr = 'u1'
;;
SELECT price AS x FROM plays WHERE k < 20 UNION SELECT v FROM events WHERE usr = 'u1' UNION SELECT b FROM nums WHERE id < -40
;;
SELECT usr FROM users WHERE usr < 'u11' UNION ALL SELECT n FROM plays WHERE k < 4
;;
SELECT CASE WHEN ok THEN day ELSE "at" END AS d, coalesce(price, n) AS c, coalesce(day, "at") AS e, least(n, price, 7.25) AS l, [n, price] AS p, CASE WHEN ok THEN 1 ELSE 2.5 END AS w FROM plays WHERE k < 30
;;
SELECT usr, max((n, k)) AS m, min((day, k)) AS d FROM plays WHERE n IS NOT NULL GROUP BY usr
;;
SELECT usr, arg_max(song, (n, k)) AS s, arg_min((song, k), k) AS t, list((k, n) ORDER BY k)[1] AS f FROM plays WHERE n IS NOT NULL GROUP BY usr
;;
SELECT usr, k FROM plays WHERE (usr, n) < ('u12', 3) ORDER BY (n, k) DESC LIMIT 5
;;
SELECT usr, k, row_number() OVER (ORDER BY (n, k)) AS r FROM plays WHERE n IS NOT NULL QUALIFY r <= 5
;;
SELECT count(*) FROM (SELECT DISTINCT usr, day FROM plays) UNION ALL SELECT count(DISTINCT (usr, day)) FROM plays
;;
SELECT usr FROM users WHERE usr IN (VALUES ('u1'), ('u2')) OR usr IN (FROM (SELECT usr FROM events WHERE v > 99))
;;
TABLE users ORDER BY usr LIMIT 3
;;
SELECT usr FROM users u WHERE EXISTS (FROM events e WHERE e.usr = u.usr AND e.v > 99)
;;
SELECT usr, k, country FROM plays RIGHT JOIN users USING (usr) WHERE usr > 'u20' ORDER BY usr, k
;;
SELECT usr, k, country FROM plays FULL JOIN users USING (usr) WHERE usr > 'u20' OR usr IS NULL ORDER BY usr, k
;;
SELECT usr, a.c AS ac, b.c AS bc, d.c AS dc FROM (SELECT usr, count(*) AS c FROM plays WHERE ok GROUP BY usr) a FULL JOIN (SELECT usr, count(*) AS c FROM events WHERE v > 90 GROUP BY usr) b USING (usr) FULL JOIN (SELECT usr, count(*) AS c FROM users WHERE rank > 6 GROUP BY usr) d USING (usr) ORDER BY usr, ac, bc, dc
;;
SELECT usr, count(*) AS c, count(p.k) AS pk, count(u.usr) AS uu, count(p.usr) AS pu FROM users u FULL JOIN plays p USING (usr) GROUP BY usr ORDER BY usr
;;
SELECT * FROM (SELECT usr, k FROM plays WHERE k < 4) LEFT JOIN (SELECT usr, country FROM users) USING (usr) ORDER BY k
;;
SELECT k, n FROM plays WHERE k < 6 ORDER BY ALL DESC
;;
SELECT k, usr FROM plays ORDER BY COLUMNS(['usr', 'k']) LIMIT 3
;;
SELECT usr FROM plays GROUP BY usr HAVING bool_or(ok) AND NOT bool_and(ok) AND count(*) FILTER (WHERE n > 0) BETWEEN 2 AND 4 ORDER BY usr
;;
SELECT a.usr, b.usr FROM users a LEFT JOIN users b ON a.usr = b.usr AND b.country = 'DE' WHERE a.rank > 4
;;
SELECT p.k, q.k, q.n FROM plays p LEFT JOIN plays q ON p.k = q.k AND q.n > 0 WHERE p.k < 10 ORDER BY p.k
;;
SELECT q.k, count(*) AS c FROM plays p LEFT JOIN plays q ON p.k = q.k AND q.n > 30 GROUP BY q.k ORDER BY c DESC, q.k LIMIT 4
;;
SELECT coalesce(p.k, q.k) AS k, p.n, q.price FROM (SELECT * FROM plays WHERE ok) p FULL JOIN (SELECT * FROM plays WHERE n > 40) q ON p.k = q.k ORDER BY 1
;;
SELECT k, count(*) AS c FROM (SELECT k FROM plays WHERE ok UNION ALL SELECT k FROM plays WHERE n > 0) GROUP BY k HAVING count(*) = 2 ORDER BY k
;;
SELECT count(*) FROM (SELECT k FROM plays WHERE ok INTERSECT SELECT k FROM plays WHERE n > 0) UNION ALL SELECT count(*) FROM (SELECT k FROM plays WHERE ok EXCEPT SELECT k FROM plays WHERE n > 0)
;;
SELECT p.k, p.n - q.n AS diff FROM plays p JOIN plays q USING (k) WHERE p.k % 50 = 0
;;
SELECT k, (SELECT q.n FROM plays q WHERE q.k = p.k) AS n, EXISTS (SELECT 1 FROM plays q WHERE q.k = p.k AND q.ok) AS o, p.k IN (SELECT q.k FROM plays q WHERE q.ok) AS i FROM plays p WHERE k < 20
;;
SELECT e.usr, count(*) AS c, max(x.c) AS m FROM events e JOIN (SELECT usr, count(*) AS c FROM events GROUP BY usr HAVING count(*) > 12) x ON x.usr = e.usr WHERE e.kind = 'buy' GROUP BY e.usr
;;
SELECT usr, kind, c, c * 100.0 / sum(c) OVER (PARTITION BY usr) AS pct FROM (SELECT usr, kind, count(*) AS c FROM events GROUP BY usr, kind) WHERE usr LIKE 'u1%' QUALIFY rank() OVER (PARTITION BY usr ORDER BY c DESC) = 1
;;
SELECT usr, kind FROM (SELECT usr, kind, row_number() OVER (PARTITION BY usr ORDER BY "at") AS r FROM events) x JOIN (SELECT usr AS u2, max(v) AS mv FROM events GROUP BY usr) y ON y.u2 = x.usr WHERE r = 1 AND y.mv > 95
;;
SELECT usr, "at", v, v - first_value(v) OVER w AS d1, v - lag(v) OVER w AS d2, avg(v) OVER (w ROWS 2 PRECEDING) AS m FROM events WHERE v IS NOT NULL WINDOW w AS (PARTITION BY usr ORDER BY "at")
;;
SELECT usr, d, sum(c) AS c FROM (SELECT usr, "at"::DATE AS d, count(*) AS c FROM events GROUP BY ALL UNION ALL SELECT usr, day, count(*) FROM plays GROUP BY ALL) GROUP BY ALL HAVING sum(c) > 3 ORDER BY ALL
;;
SELECT min(k) AS first_k, max(k) AS last_k, count(*) AS len, g FROM (SELECT k, count(*) FILTER (WHERE NOT coalesce(ok, false)) OVER (ORDER BY k) AS g, ok FROM plays) WHERE ok GROUP BY g ORDER BY len DESC, first_k LIMIT 5
;;
SELECT usr, list(kind ORDER BY "at") FILTER (WHERE kind IS NOT NULL) AS ks, list_position(ks, 'buy') AS p, ks[:3] AS f FROM events GROUP BY usr ORDER BY usr
;;
SELECT usr, sum(n) AS n, n + 1 AS m FROM plays GROUP BY usr, n ORDER BY usr, m LIMIT 5
;;
SELECT usr, count(*) AS c, c + 1 AS d, d * 2 AS e FROM plays GROUP BY usr HAVING e > 18 ORDER BY e DESC, usr
;;
SELECT k AS n, n AS k FROM plays WHERE k < 5 ORDER BY k
;;
SELECT k AS n, n AS k FROM plays WHERE k < 5 ORDER BY k + 0
;;
SELECT max(n) AS n FROM plays GROUP BY n ORDER BY n DESC LIMIT 3
;;
SELECT usr AS name, u.name AS usr FROM users u WHERE usr > 'u2' AND name IS NOT NULL ORDER BY name
;;
SELECT u.usr AS id, u.* FROM users u ORDER BY id LIMIT 3
;;
SELECT *, n * 2 AS n, usr AS usr2 FROM (SELECT k, n, usr FROM plays WHERE k < 5) ORDER BY k
;;
SELECT t.n FROM (SELECT *, n * 2 AS m FROM (SELECT k, n FROM plays)) t WHERE m > 90 ORDER BY t.n
;;
SELECT x.*, y.* FROM (SELECT usr, count(*) AS c FROM plays GROUP BY usr) x JOIN (SELECT usr, count(*) AS c FROM events GROUP BY usr) y ON x.usr = y.usr WHERE x.c > y.c
;;
SELECT c FROM (SELECT x.*, y.c AS c2 FROM (SELECT usr, count(*) AS c FROM plays GROUP BY usr) x JOIN (SELECT usr, count(*) AS c FROM events GROUP BY usr) y ON x.usr = y.usr) WHERE c2 > 15
;;
SELECT "usr", "C" FROM (SELECT USR, COUNT(*) AS c FROM PLAYS GROUP BY Usr) ORDER BY C DESC, uSR LIMIT 3
;;
SELECT "Plays"."USR" AS "Usr" FROM "Plays" WHERE "PLAYS"."K" < 3
;;
SELECT sum(n) OVER (PARTITION BY usr ORDER BY k) AS "sum(n)", "sum(n)" + 1 AS p FROM plays WHERE k < 5
;;
SELECT * FROM (SELECT usr, count(*), sum(n) FROM plays GROUP BY usr) WHERE "count_star()" > 10
;;
SELECT "sum(n)" FROM (SELECT usr, sum(n) FROM plays GROUP BY usr) ORDER BY 1 DESC NULLS LAST LIMIT 3
;;
SELECT "count(DISTINCT song)", "upper(usr)" FROM (SELECT upper(usr), count(DISTINCT song) FROM plays GROUP BY usr) WHERE "count(DISTINCT song)" > 7
;;
SELECT k FROM plays WHERE NOT (n > 5) AND (n > 20) IS NOT TRUE AND k % 2 = 0
;;
SELECT k FROM plays WHERE n NOT IN (1, 2, 3) AND n <> ALL ([4, 5]) AND n IS DISTINCT FROM 6
;;
SELECT k FROM plays WHERE n NOT IN (1, NULL)
;;
SELECT count(*) FROM plays WHERE score > 1e300 OR score >= 'nan' OR score = 'NaN'::DOUBLE
;;
SELECT k, score FROM plays WHERE score < 'inf' AND score > 8
;;
SELECT k FROM plays WHERE score > 8 AND score <= 'infinity'::DOUBLE ORDER BY k
;;
SELECT k FROM plays WHERE score = 0 OR score = -0.0 ORDER BY k
;;
SELECT k FROM plays WHERE score BETWEEN -0.0 AND 0.5 ORDER BY k
;;
SELECT k FROM plays WHERE score IN (0, 'NaN', 'inf') ORDER BY k
;;
SELECT k FROM plays WHERE NOT score <= 8.5 ORDER BY k
;;
SELECT score IS NULL AS n, isnan(score) AS nan, isinf(score) AS inf, count(*) FROM plays GROUP BY ALL
;;
SELECT id, f FROM nums WHERE f > 1.1 AND f < 2::TINYINT
;;
SELECT id FROM nums WHERE b = 255 OR b > 250.5 OR b = '77' OR b::INT < -1
;;
SELECT usr FROM users WHERE rank > 40000 OR rank = 3.0 OR rank = 4.5
;;
SELECT k FROM plays WHERE price = 1.005 OR price > 999.999 OR price < 0.01 OR price BETWEEN 100 AND 110.555
;;
SELECT k FROM plays WHERE price > 990::DOUBLE AND price < 99999999999
;;
SELECT k FROM plays WHERE raw > 'a' OR raw = '\xAA'::BLOB OR raw = ''
;;
SELECT k FROM plays WHERE day < 'infinity' AND day > '-infinity' AND day > 'epoch' AND k < 20
;;
SELECT k FROM plays WHERE "at" < 'infinity'::TIMESTAMP AND "at" >= TIMESTAMP 'epoch' AND "at" >= DATE '2024-05-09'
;;
SELECT id FROM nums WHERE tz < 'infinity' AND tz >= '2024-05-08 22:00:00-04' ORDER BY id
;;
SELECT id FROM nums WHERE tz = (SELECT max(tz) FROM nums) OR tz::DATE = '2024-05-02'
;;
SELECT usr FROM users WHERE usr BETWEEN 'u1' AND 'u2' OR usr > 'u9' OR usr = ''
;;
SELECT usr FROM users WHERE usr COLLATE NOCASE = 'U1' OR usr ILIKE 'U2_'
;;
SELECT usr, name FROM users WHERE name LIKE 'Ç%' OR name LIKE '_ob%' OR name LIKE '' OR name LIKE '%é%'
;;
SELECT usr FROM users WHERE usr NOT LIKE 'u1%' AND usr LIKE 'u%' AND NOT usr LIKE '%2' AND prefix(usr, 'u') AND suffix(usr, '4')
;;
SELECT usr FROM users WHERE usr LIKE 'u\_%' OR usr LIKE 'u1\%' ESCAPE '\' OR usr LIKE 'u$_' ESCAPE '$'
;;
SELECT usr FROM users WHERE lower(usr) IN ('u1', 'u2') OR upper(usr) = 'U' || '3' OR usr = concat('u', 4)
;;
SELECT * FROM events WHERE usr = 'u3' AND "at" BETWEEN '2024-05-02' AND '2024-05-06 23:59:59.999' ORDER BY "at"
;;
SELECT * FROM events WHERE usr = 'u3' AND "at" >= '2024-05-02'::DATE AND "at" < '2024-05-06'::DATE + INTERVAL 1 DAY ORDER BY "at"
;;
SELECT * FROM events WHERE (usr, "at") > ('u9', TIMESTAMP '2024-05-05') ORDER BY usr, "at"
;;
SELECT day, count(*) FROM plays WHERE day BETWEEN '2024-05-02' AND TIMESTAMP '2024-05-04 12:00:00' GROUP BY day
;;
SELECT day, count(*) FROM plays WHERE day BETWEEN '2024-05-02 10:00:00' AND TIMESTAMP '2024-05-04 12:00:00' GROUP BY day
;;
SELECT day, count(*) FROM plays WHERE day >= '2024-05-02 10:00:00'::TIMESTAMP AND day < CAST('2024-05-04 12:00:00' AS TIMESTAMP) GROUP BY day
;;
SELECT day, count(*) FROM plays WHERE day IN (TIMESTAMP '2024-05-02 10:00:00', TIMESTAMP '2024-05-03 00:00:00') GROUP BY day
;;
SELECT day, count(*) FROM plays WHERE day >= date_trunc('month', TIMESTAMP '2024-05-15 10:00:00') AND day < date_trunc('day', TIMESTAMP '2024-05-04 10:00:00') GROUP BY day
;;
SELECT day, count(*) FROM plays WHERE day > DATE '2024-05-10' - INTERVAL '3 days' GROUP BY day
;;
SELECT count(*) FROM plays WHERE day >= current_date - INTERVAL '100 years' AND "at" < now() AND day <= today()
;;
SELECT k FROM plays WHERE k = 3 OR (k BETWEEN 5 AND 7 AND n IS NOT NULL) OR k IN (SELECT id FROM nums WHERE id > 40)
;;
SELECT k FROM plays WHERE k IN (1, 2, 3) AND k IN (2, 3, 4) AND k <> 3
;;
SELECT k FROM plays WHERE k::VARCHAR LIKE '1_' OR CAST(k AS DOUBLE) = 5.0 OR k + 1 = 8 OR -k = -9
;;
SELECT k FROM plays WHERE k > 9223372036854775806 OR k < -1 OR k = 10.0000001 OR k >= 198.5
;;
SELECT k FROM plays WHERE k = 1e1 OR k = '12' OR k IN ('14', 15.0)
;;
SELECT k FROM plays WHERE k IS NOT DISTINCT FROM 4 OR k IS NULL OR NULL
;;
SELECT CASE WHEN ok THEN 'yes' WHEN NOT ok THEN 'no' ELSE 'unknown' END AS o, count(*) FROM plays WHERE ok IS NOT FALSE OR ok IS NULL GROUP BY 1
;;
SELECT count(*) FROM plays WHERE ok = TRUE AND NOT (ok IS FALSE) AND ok <> FALSE AND (ok OR NULL)
;;
SELECT k FROM plays WHERE s.x > 5 AND s.y IN ('p', 'q') AND s IS NOT NULL ORDER BY k
;;
SELECT k FROM plays WHERE tags = ['a'] OR tags IS NULL OR len(tags) = 3 AND tags[1] = 'b' ORDER BY k
;;
SELECT k FROM plays WHERE m['x'] = 5 OR map_contains(m, 'z') AND m['z'] > 6 ORDER BY k
;;
SELECT k FROM plays WHERE s = {'x': 3, 'y': 'p'} OR s < {'x': 1, 'y': 'p'} ORDER BY k
;;
SELECT e.usr, e."at", u.country FROM events e JOIN users u ON u.usr = e.usr AND u.usr = 'u7' AND e."at" > '2024-05-03' ORDER BY 2
;;
SELECT p.k, e.kind FROM plays p JOIN events e ON p.usr = e.usr AND e."at" BETWEEN p."at" AND p."at" + INTERVAL 3 HOUR ORDER BY p.k, e."at"
;;
SELECT p.k, count(e.usr) AS c FROM plays p LEFT JOIN events e ON p.usr = e.usr AND e."at" BETWEEN p."at" - INTERVAL '6 hours' AND p."at" AND e.kind = 'view' GROUP BY p.k ORDER BY c DESC, p.k LIMIT 10
;;
SELECT a.id, b.id AS bid FROM nums a JOIN nums b ON a.id = -b.id AND a.id > 0 ORDER BY a.id
;;
SELECT a.id, b.k FROM nums a LEFT JOIN plays b ON a.id = b.k AND b.k > 5 WHERE a.id > 0 AND (b.n > 0 OR b.n IS NULL) ORDER BY 1
;;
SELECT a.k, b.n AS bn, c.n AS cn FROM plays a JOIN plays b ON b.k = a.k + 1 JOIN plays c ON c.k = b.k + 1 WHERE a.k < 5 ORDER BY 1
;;
SELECT a.k FROM plays a SEMI JOIN plays b ON a.usr = b.usr AND a.k < b.k AND b.n > 40 ORDER BY a.k
;;
SELECT x.usr, x.kind FROM events x JOIN events y USING (usr, "at") WHERE y.kind = 'buy' AND x.usr < 'u13'
;;
SELECT usr, "at", x.kind, y.v FROM events x JOIN events y USING (usr, "at") WHERE "at" > '2024-05-08' ORDER BY usr, "at"
;;
SELECT usr, name, c FROM users NATURAL JOIN (SELECT usr, count(*) AS c FROM plays GROUP BY usr) ORDER BY usr
;;
SELECT p.k, q.k AS qk FROM plays p POSITIONAL JOIN (SELECT 1 AS k) q WHERE p.k IS NOT NULL AND q.k IS NOT NULL AND p.k < 0
;;
SELECT usr, count(*) AS c FROM plays WHERE usr IN ('u0', 'u2', 'u4', 'u6', 'u8', 'u10', 'u12', 'u14', 'u16', 'u18', 'u20', 'u22', 'u24', 'u26', 'u28', 'u30', 'u32', 'u34', 'u36', 'u38', 'u40', 'u42', 'u44', 'u46', 'u48', 'u50', 'u52', 'u54', 'u56', 'u58') GROUP BY usr
;;
SELECT usr, count(*) AS c FROM plays WHERE usr NOT IN ('u0', 'u2', 'u4', 'u6', 'u8', 'u10', 'u12', 'u14', 'u16', 'u18', 'u20', 'u22', 'u24', 'u26', 'u28', 'u30', 'u32', 'u34', 'u36', 'u38', 'u40', 'u42', 'u44', 'u46', 'u48', 'u50', 'u52', 'u54', 'u56', 'u58') GROUP BY usr
;;
SELECT usr, count(*) AS c FROM plays WHERE usr NOT IN ('u0', 'u2', 'u4', 'u6', 'u8', 'u10', 'u12', 'u14', 'u16', 'u18', 'u20', 'u22', 'u24', 'u26', 'u28', 'u30', 'u32', 'u34', 'u36', 'u38', 'u40', 'u42', 'u44', 'u46', 'u48', 'u50', 'u52', 'u54', 'u56', 'u58', NULL) GROUP BY usr
;;
SELECT usr, usr IN ('u0', 'u2', 'u4', 'u6', 'u8', 'u10', 'u12', 'u14', 'u16', 'u18', 'u20', 'u22', 'u24', 'u26', 'u28', 'u30', 'u32', 'u34', 'u36', 'u38', 'u40', 'u42', 'u44', 'u46', 'u48', 'u50', 'u52', 'u54', 'u56', 'u58', NULL) AS i, count(*) AS c FROM plays GROUP BY ALL
;;
SELECT CASE WHEN usr IN ('u0', 'u2', 'u4', 'u6', 'u8', 'u10', 'u12', 'u14', 'u16', 'u18', 'u20', 'u22', 'u24', 'u26', 'u28', 'u30', 'u32', 'u34', 'u36', 'u38', 'u40', 'u42', 'u44', 'u46', 'u48', 'u50', 'u52', 'u54', 'u56', 'u58') THEN 'even' WHEN usr IS NULL THEN '?' ELSE 'odd' END AS w, count(*) AS c FROM plays GROUP BY 1
;;
SELECT k FROM plays WHERE k IN (-20, -17, -14, -11, -8, -5, -2, 1, 4, 7, 10, 13, 16, 19, 22, 25, 28, 31, 34, 37)
;;
SELECT k FROM plays WHERE k IN (0, 3, 6, 9, 12, 15, 18, 21, 24, 27, 30, 33, 36, 39, 5.0, 7.5)
;;
SELECT k FROM plays WHERE k IN ('0', '3', '6', '9', '12', '15', '18', '21', '24', '27', '30', '33', '36', '39', '42', '45', '48', '51', '54', '57')
;;
SELECT k FROM plays WHERE n IN (-50, -45, -40, -35, -30, -25, -20, -15, -10, -5, 0, 5, 10, 15, 20, 25, 30, 35, 40, 45, NULL) OR k IN (50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63, 64, 65, 66, 67, 68, 69)
;;
SELECT k FROM plays WHERE NOT (n IN (-50, -45, -40, -35, -30, -25, -20, -15, -10, -5, 0, 5, 10, 15, 20, 25, 30, 35, 40, 45))
;;
SELECT day, count(*) FROM plays WHERE day IN ('2024-05-01', '2024-05-02', '2024-05-03', '2024-05-04', '2024-05-05', '2024-05-06', '2024-05-07', '2024-05-08', '2024-05-09', '2024-06-01', '2024-06-02', '2024-06-03', '2024-06-04', '2024-06-05', '2024-06-06', '2024-06-07', '2024-06-08', '2024-06-09', '2024-06-10', '2024-06-11', '2024-06-12', '2024-06-13', '2024-06-14', '2024-06-15', '2024-06-16', '2024-06-17', '2024-06-18', '2024-06-19', '2024-06-20', '2024-06-21', '2024-06-22', '2024-06-23', '2024-06-24', '2024-06-25', '2024-06-26', '2024-06-27') GROUP BY day
;;
SELECT day, count(*) FROM plays WHERE day IN (DATE '2024-05-01', DATE '2024-05-02', DATE '2024-05-03', DATE '2024-05-04', DATE '2024-05-05', DATE '2024-05-06', DATE '2024-05-07', DATE '2024-05-08', DATE '2024-05-09', DATE '2024-06-01', DATE '2024-06-02', DATE '2024-06-03', DATE '2024-06-04', DATE '2024-06-05', DATE '2024-06-06', DATE '2024-06-07', DATE '2024-06-08', DATE '2024-06-09', DATE '2024-06-10', DATE '2024-06-11', DATE '2024-06-12', DATE '2024-06-13', DATE '2024-06-14', DATE '2024-06-15', DATE '2024-06-16', DATE '2024-06-17', DATE '2024-06-18', DATE '2024-06-19', DATE '2024-06-20', DATE '2024-06-21', DATE '2024-06-22', DATE '2024-06-23', DATE '2024-06-24', DATE '2024-06-25', DATE '2024-06-26', DATE '2024-06-27') GROUP BY day
;;
SELECT day, count(*) FROM plays WHERE day IN ('2024-05-01 10:00:00', '2024-05-02 10:00:00', '2024-05-03 10:00:00', '2024-05-04 10:00:00', '2024-05-05 10:00:00', '2024-05-06 10:00:00', '2024-05-07 10:00:00', '2024-05-08 10:00:00', '2024-05-09 10:00:00', '2024-06-01 10:00:00', '2024-06-02 10:00:00', '2024-06-03 10:00:00', '2024-06-04 10:00:00', '2024-06-05 10:00:00', '2024-06-06 10:00:00', '2024-06-07 10:00:00', '2024-06-08 10:00:00', '2024-06-09 10:00:00', '2024-06-10 10:00:00', '2024-06-11 10:00:00', '2024-06-12 10:00:00', '2024-06-13 10:00:00', '2024-06-14 10:00:00', '2024-06-15 10:00:00', '2024-06-16 10:00:00', '2024-06-17 10:00:00', '2024-06-18 10:00:00', '2024-06-19 10:00:00', '2024-06-20 10:00:00', '2024-06-21 10:00:00', '2024-06-22 10:00:00', '2024-06-23 10:00:00', '2024-06-24 10:00:00', '2024-06-25 10:00:00', '2024-06-26 10:00:00', '2024-06-27 10:00:00') GROUP BY day
;;
SELECT price FROM plays WHERE price IN (311.9, 776.78, 713.33, 170.94, 484.9, 791.57, 621.35, 820.14, 761.33, 85.88, 793.77, 17.25, 615.03, 339.94, 721.92, 307.14, 251.32, 939.98, 616.38, 709.06, 720.41, 624.36, 520.53, 837.63, 197.41, 303.98, 832.12, 198.73, 685.74, 511.09, 971.57, 19.85, 880.03, 83.92, 208.92, 993.82, 774.76, 56.08, 394.87, 40.64, 353.14, 619.64, 779.55, 942.17, 508.04, 936.02, 559.59, 517.68, 954.36, 756.16, 582.77, 175.83, 479.09, 127.73, 47.03, 178.21, 648.65, 284.4, 338.14, 880.85, 571.68, 821.36, 394.56, 552.0, 664.85, 505.76, 752.38, 459.94, 700.05, 766.86, 534.21, 765.79, 304.59, 441.4, 893.88, 37.56, 366.58, 794.05, 879.85, 911.69, 213.77, 915.68, 427.8, 710.1, 749.67, 745.94, 136.41, 935.61, 859.19, 276.72, 829.65, 751.74, 350.07, 373.49, 163.09, 83.17, 631.76, 837.23, 633.74, 116.02, 450.99, 87.3, 538.0, 197.61, 26.37, 385.2, 559.86, 544.2, 155.86, 57.92, 792.97, 805.48, 998.28, 58.9, 495.19, 941.67, 768.57, 433.78, 722.01, 365.78, 662.46, 309.26, 47.2, 405.89, 9.48, 100.88, 141.71, 786.12, 701.99, 41.12, 258.71, 534.69, 382.22, 800.15, 345.2, 204.73, 904.04, 55.62, 445.4, 411.34, 472.11, 181.3, 495.17, 493.81, 603.46, 681.67, 506.19, 843.95, 780.73, 892.56, 733.03, 134.44, 812.81, 664.57, 355.59, 565.17, 831.37, 944.12, 937.97, 311.47, 394.64, 573.36, 338.47, 683.05, 397.13, 718.83, 444.21, 15.01, 544.22, 760.17, 412.71, 26.28, 493.5, 807.13, 772.28, 828.61, 174.67, 78.74, 830.38, 822.26, 435.74, 611.12, 462.57, 890.34, 462.12, 798.05, 926.61, 365.59, 967.35, 641.6, 29.07, 772.5, 79.39, 886.07, 27.85, 483.87, 329.15, 823.09, 598.09, 391.42, 776.82, 788.33, 419.46, 232.54, 477.04, 242.8, 409.82, 993.66, 483.85, 780.69, 346.2, 393.74, 494.35, 137.45, 35.28, 746.13, 896.18, 963.6, 172.25, 406.34, 655.37, 291.68, 856.84, 353.07, 312.86, 429.63, 245.62, 888.75, 570.47, 851.36, 914.96, 127.16, 133.48, 787.38, 422.0, 437.45, 884.64, 294.2, 574.65, 221.88, 104.78, 441.33, 972.64, 852.27, 285.76, 745.01, 591.26, 354.68, 294.94, 158.49, 44.44, 694.19, 250.09, 413.06, 753.44, 240.63, 365.15, 445.78, 841.4, 112.11, 811.77, 452.56, 772.64, 169.98, 552.17, 382.65, 679.47, 355.43, 609.11, 453.97, 831.23, 546.44, 380.63, 550.2, 744.92, 536.76, 46.58, 541.67, 204.46, 261.58, 6.11, 625.67, 816.13, 668.65, 569.31, 732.52, 940.12, 291.09, 42.36, 977.17, 598.56, 987.47, 868.99, 980.43, 680.28, 378.85, 712.84, 447.04, 298.14, 89.21)
;;
SELECT price FROM plays WHERE price IN (878, 602, 994, 293, 122, 829, 250, 46, 35, 925, 822, 710, 524, 946, 203, 918, 904, 921, 440, 590, 50, 13, 492, 763, 123, 175, 515, 307, 244, 678, 20, 537, 549, 423, 54, 961, 934, 626, 116, 349, 128, 258, 995, 882, 553, 488, 831, 801, 62, 360, 226, 202, 125, 547, 908, 836, 122, 175, 245, 810, 280, 943, 910, 825, 131, 843, 942, 7, 499, 643, 584, 883, 409, 51, 774, 277, 254, 275, 632, 539, 532, 433, 52, 484, 330, 795, 839, 1, 877, 56, 793, 129, 47, 127, 51, 70, 494, 998, 33, 874, 729, 88, 527, 514, 501, 323, 160, 322, 73, 359, 395, 662, 398, 600, 311, 369, 271, 195, 336, 438, 126, 130, 568, 3, 733, 740, 389, 814, 81, 580, 182, 43, 382, 471, 618, 665, 801, 554, 389, 651, 820, 44, 637, 907, 441, 54, 381, 642, 508, 778, 719, 322, 430, 973, 710, 428, 471, 18, 250, 223, 548, 276, 711, 604, 73, 822, 435, 229, 436, 133, 900, 28, 958, 333, 383, 992, 919, 572, 809, 891, 268, 124, 475, 707, 126, 961, 832, 749, 678, 870, 908, 542, 811, 385, 683, 111, 751, 326, 577, 544, 105, 831, 601, 733, 5, 484, 146, 241, 792, 398, 45, 539, 94, 577, 101, 675, 901, 384, 183, 839, 24, 349, 861, 872, 124, 26, 864, 117, 689, 493, 856, 713, 975, 291, 592, 306, 817, 90, 37, 785, 577, 523, 541, 732, 244, 109, 567, 766, 102, 956, 566, 62, 563, 332, 890, 577, 184, 847, 79, 247, 184, 661, 255, 465, 630, 716, 771, 965, 403, 258, 376, 613, 406, 961, 358, 569, 428, 989, 85, 384, 512, 240, 996, 951, 422, 863, 765, 990, 164, 425, 707, 582, 774, 593, 690, 946, 529, 702, 495, 159)
;;
SELECT k FROM plays WHERE (usr, n % 5) IN (('u0', 0), ('u1', 1), ('u2', 2), ('u3', 3), ('u4', 4), ('u5', 0), ('u6', 1), ('u7', 2), ('u8', 3), ('u9', 4), ('u10', 0), ('u11', 1), ('u12', 2), ('u13', 3), ('u14', 4), ('u15', 0), ('u16', 1), ('u17', 2), ('u18', 3), ('u19', 4), ('u20', 0), ('u21', 1), ('u22', 2), ('u23', 3), ('u24', 4))
;;
SELECT k FROM plays WHERE (k, usr) IN ((0, 'u0'), (1, 'u1'), (2, 'u2'), (3, 'u3'), (4, 'u4'), (5, 'u5'), (6, 'u6'), (7, 'u7'), (8, 'u8'), (9, 'u9'), (10, 'u10'), (11, 'u11'), (12, 'u12'), (13, 'u13'), (14, 'u14'), (15, 'u15'), (16, 'u16'), (17, 'u17'), (18, 'u18'), (19, 'u19'), (20, 'u0'), (21, 'u1'), (22, 'u2'), (23, 'u3'), (24, 'u4'), (25, 'u5'), (26, 'u6'), (27, 'u7'), (28, 'u8'), (29, 'u9'), (30, 'u10'), (31, 'u11'), (32, 'u12'), (33, 'u13'), (34, 'u14'), (35, 'u15'), (36, 'u16'), (37, 'u17'), (38, 'u18'), (39, 'u19'), (40, 'u0'), (41, 'u1'), (42, 'u2'), (43, 'u3'), (44, 'u4'), (45, 'u5'), (46, 'u6'), (47, 'u7'), (48, 'u8'), (49, 'u9'), (50, 'u10'), (51, 'u11'), (52, 'u12'), (53, 'u13'), (54, 'u14'), (55, 'u15'), (56, 'u16'), (57, 'u17'), (58, 'u18'), (59, 'u19'), (60, 'u0'), (61, 'u1'), (62, 'u2'), (63, 'u3'), (64, 'u4'), (65, 'u5'), (66, 'u6'), (67, 'u7'), (68, 'u8'), (69, 'u9'), (70, 'u10'), (71, 'u11'), (72, 'u12'), (73, 'u13'), (74, 'u14'), (75, 'u15'), (76, 'u16'), (77, 'u17'), (78, 'u18'), (79, 'u19'), (80, 'u0'), (81, 'u1'), (82, 'u2'), (83, 'u3'), (84, 'u4'), (85, 'u5'), (86, 'u6'), (87, 'u7'), (88, 'u8'), (89, 'u9'), (90, 'u10'), (91, 'u11'), (92, 'u12'), (93, 'u13'), (94, 'u14'), (95, 'u15'), (96, 'u16'), (97, 'u17'), (98, 'u18'), (99, 'u19'), (100, 'u0'), (101, 'u1'), (102, 'u2'), (103, 'u3'), (104, 'u4'), (105, 'u5'), (106, 'u6'), (107, 'u7'), (108, 'u8'), (109, 'u9'), (110, 'u10'), (111, 'u11'), (112, 'u12'), (113, 'u13'), (114, 'u14'), (115, 'u15'), (116, 'u16'), (117, 'u17'), (118, 'u18'), (119, 'u19'), (120, 'u0'), (121, 'u1'), (122, 'u2'), (123, 'u3'), (124, 'u4'), (125, 'u5'), (126, 'u6'), (127, 'u7'), (128, 'u8'), (129, 'u9'), (130, 'u10'), (131, 'u11'), (132, 'u12'), (133, 'u13'), (134, 'u14'), (135, 'u15'), (136, 'u16'), (137, 'u17'), (138, 'u18'), (139, 'u19'), (140, 'u0'), (141, 'u1'), (142, 'u2'), (143, 'u3'), (144, 'u4'), (145, 'u5'), (146, 'u6'), (147, 'u7'), (148, 'u8'), (149, 'u9'), (150, 'u10'), (151, 'u11'), (152, 'u12'), (153, 'u13'), (154, 'u14'), (155, 'u15'), (156, 'u16'), (157, 'u17'), (158, 'u18'), (159, 'u19'), (160, 'u0'), (161, 'u1'), (162, 'u2'), (163, 'u3'), (164, 'u4'), (165, 'u5'), (166, 'u6'), (167, 'u7'), (168, 'u8'), (169, 'u9'), (170, 'u10'), (171, 'u11'), (172, 'u12'), (173, 'u13'), (174, 'u14'), (175, 'u15'), (176, 'u16'), (177, 'u17'), (178, 'u18'), (179, 'u19'), (180, 'u0'), (181, 'u1'), (182, 'u2'), (183, 'u3'), (184, 'u4'), (185, 'u5'), (186, 'u6'), (187, 'u7'), (188, 'u8'), (189, 'u9'), (190, 'u10'), (191, 'u11'), (192, 'u12'), (193, 'u13'), (194, 'u14'), (195, 'u15'), (196, 'u16'), (197, 'u17'), (198, 'u18'), (199, 'u19'))
;;
SELECT usr, "at" FROM events WHERE (usr, kind) IN (('u0', 'buy'), ('u3', 'buy'), ('u6', 'buy'), ('u9', 'buy'), ('u12', 'buy'), ('u15', 'buy'), ('u18', 'buy'), ('u21', 'buy'), ('u24', 'buy'))
;;
SELECT m.label, count(*) AS c, sum(p.n) AS s FROM plays p JOIN (VALUES ('u0', 'seg0'), ('u1', 'seg1'), ('u2', 'seg2'), ('u3', 'seg3'), ('u4', 'seg0'), ('u5', 'seg1'), ('u6', 'seg2'), ('u7', 'seg3'), ('u8', 'seg0'), ('u9', 'seg1'), ('u10', 'seg2'), ('u11', 'seg3'), ('u12', 'seg0'), ('u13', 'seg1'), ('u14', 'seg2'), ('u15', 'seg3'), ('u16', 'seg0'), ('u17', 'seg1'), ('u18', 'seg2'), ('u19', 'seg3'), ('u20', 'seg0'), ('u21', 'seg1'), ('u22', 'seg2'), ('u23', 'seg3'), ('u24', 'seg0')) AS m(usr, label) ON m.usr = p.usr GROUP BY m.label
;;
WITH m(usr, label, w) AS (VALUES ('u0', 'seg0', 0.0), ('u1', 'seg1', 1.5), ('u2', 'seg2', 3.0), ('u3', 'seg3', 4.5), ('u4', 'seg0', 6.0), ('u5', 'seg1', 7.5), ('u6', 'seg2', 9.0), ('u7', 'seg3', 10.5), ('u8', 'seg0', 12.0), ('u9', 'seg1', 13.5), ('u10', 'seg2', 15.0), ('u11', 'seg3', 16.5), ('u12', 'seg0', 18.0), ('u13', 'seg1', 19.5), ('u14', 'seg2', 21.0), ('u15', 'seg3', 22.5), ('u16', 'seg0', 24.0), ('u17', 'seg1', 25.5), ('u18', 'seg2', 27.0), ('u19', 'seg3', 28.5), ('u20', 'seg0', 30.0), ('u21', 'seg1', 31.5), ('u22', 'seg2', 33.0), ('u23', 'seg3', 34.5), ('u24', 'seg0', 36.0)) SELECT m.label, count(p.k) AS c, sum(m.w) AS s FROM m LEFT JOIN plays p USING (usr) GROUP BY m.label
;;
WITH seed AS (SELECT 'u0' AS usr, 0 AS grp UNION ALL SELECT 'u1' AS usr, 1 AS grp UNION ALL SELECT 'u2' AS usr, 2 AS grp UNION ALL SELECT 'u3' AS usr, 0 AS grp UNION ALL SELECT 'u4' AS usr, 1 AS grp UNION ALL SELECT 'u5' AS usr, 2 AS grp UNION ALL SELECT 'u6' AS usr, 0 AS grp UNION ALL SELECT 'u7' AS usr, 1 AS grp UNION ALL SELECT 'u8' AS usr, 2 AS grp UNION ALL SELECT 'u9' AS usr, 0 AS grp UNION ALL SELECT 'u10' AS usr, 1 AS grp UNION ALL SELECT 'u11' AS usr, 2 AS grp UNION ALL SELECT 'u12' AS usr, 0 AS grp UNION ALL SELECT 'u13' AS usr, 1 AS grp UNION ALL SELECT 'u14' AS usr, 2 AS grp UNION ALL SELECT 'u15' AS usr, 0 AS grp UNION ALL SELECT 'u16' AS usr, 1 AS grp UNION ALL SELECT 'u17' AS usr, 2 AS grp UNION ALL SELECT 'u18' AS usr, 0 AS grp UNION ALL SELECT 'u19' AS usr, 1 AS grp) SELECT s.grp, count(*) AS c FROM seed s JOIN events e ON e.usr = s.usr GROUP BY 1
;;
SELECT CASE usr WHEN 'u0' THEN 'Name 0' WHEN 'u1' THEN 'Name 1' WHEN 'u2' THEN 'Name 2' WHEN 'u3' THEN 'Name 3' WHEN 'u4' THEN 'Name 4' WHEN 'u5' THEN 'Name 5' WHEN 'u6' THEN 'Name 6' WHEN 'u7' THEN 'Name 7' WHEN 'u8' THEN 'Name 8' WHEN 'u9' THEN 'Name 9' WHEN 'u10' THEN 'Name 10' WHEN 'u11' THEN 'Name 11' WHEN 'u12' THEN 'Name 12' WHEN 'u13' THEN 'Name 13' WHEN 'u14' THEN 'Name 14' WHEN 'u15' THEN 'Name 15' WHEN 'u16' THEN 'Name 16' WHEN 'u17' THEN 'Name 17' WHEN 'u18' THEN 'Name 18' WHEN 'u19' THEN 'Name 19' ELSE 'none' END AS nm, count(*) AS c FROM plays GROUP BY 1
;;
SELECT sum(CASE WHEN n < -50 THEN 2500 WHEN n < -46 THEN 2116 WHEN n < -42 THEN 1764 WHEN n < -38 THEN 1444 WHEN n < -34 THEN 1156 WHEN n < -30 THEN 900 WHEN n < -26 THEN 676 WHEN n < -22 THEN 484 WHEN n < -18 THEN 324 WHEN n < -14 THEN 196 WHEN n < -10 THEN 100 WHEN n < -6 THEN 36 WHEN n < -2 THEN 4 WHEN n < 2 THEN 4 WHEN n < 6 THEN 36 WHEN n < 10 THEN 100 WHEN n < 14 THEN 196 WHEN n < 18 THEN 324 WHEN n < 22 THEN 484 WHEN n < 26 THEN 676 WHEN n < 30 THEN 900 WHEN n < 34 THEN 1156 WHEN n < 38 THEN 1444 WHEN n < 42 THEN 1764 WHEN n < 46 THEN 2116 END) AS s FROM plays
;;
SELECT usr, count(*) AS c FROM plays GROUP BY usr HAVING count(*) IN (1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31, 33, 35, 37, 39)
;;
SELECT lower(usr) AS u, count(*) FROM plays WHERE upper(usr) IN ('U0', 'U2', 'U4', 'U6', 'U8', 'U10', 'U12', 'U14', 'U16', 'U18', 'U20', 'U22', 'U24', 'U26', 'U28', 'U30', 'U32', 'U34', 'U36', 'U38', 'U40', 'U42', 'U44', 'U46', 'U48', 'U50', 'U52', 'U54', 'U56', 'U58') GROUP BY 1
;;
SELECT p.k FROM plays p JOIN users u ON p.usr = u.usr AND u.usr IN ('u0', 'u2', 'u4', 'u6', 'u8', 'u10', 'u12', 'u14', 'u16', 'u18', 'u20', 'u22', 'u24', 'u26', 'u28', 'u30', 'u32', 'u34', 'u36', 'u38', 'u40', 'u42', 'u44', 'u46', 'u48', 'u50', 'u52', 'u54', 'u56', 'u58') AND p.k NOT IN (0, 3, 6, 9, 12, 15, 18, 21, 24, 27, 30, 33, 36, 39, 42, 45, 48, 51, 54, 57, 60, 63, 66, 69, 72, 75, 78, 81, 84, 87, 90, 93, 96, 99, 102, 105, 108, 111, 114, 117, 120, 123, 126, 129, 132, 135, 138, 141, 144, 147, 150, 153, 156, 159, 162, 165, 168, 171, 174, 177, 180, 183, 186, 189, 192, 195, 198)
;;
SELECT u.usr, p.k FROM users u LEFT JOIN plays p ON p.usr = u.usr AND p.k IN (0, 7, 14, 21, 28, 35, 42, 49, 56, 63, 70, 77, 84, 91, 98, 105, 112, 119, 126, 133, 140, 147, 154, 161, 168, 175, 182, 189, 196)
;;
SELECT f FROM nums WHERE id IN (-60, -58, -56, -54, -52, -50, -48, -46, -44, -42, -40, -38, -36, -34, -32, -30, -28, -26, -24, -22, -20, -18, -16, -14, -12, -10, -8, -6, -4, -2, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30, 32, 34, 36, 38, 40, 42, 44, 46, 48, 50, 52, 54, 56, 58) AND b IN (0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30, 32, 34, 36, 38, 40, 42, 44, 46, 48, 50, 52, 54, 56, 58, 60, 62, 64, 66, 68, 70, 72, 74, 76, 78, 80, 82, 84, 86, 88, 90, 92, 94, 96, 98, 100, 102, 104, 106, 108, 110, 112, 114, 116, 118, 120, 122, 124, 126, 128, 130, 132, 134, 136, 138, 140, 142, 144, 146, 148, 150, 152, 154, 156, 158, 160, 162, 164, 166, 168, 170, 172, 174, 176, 178, 180, 182, 184, 186, 188, 190, 192, 194, 196, 198, 200, 202, 204, 206, 208, 210, 212, 214, 216, 218, 220, 222, 224, 226, 228, 230, 232, 234, 236, 238, 240, 242, 244, 246, 248, 250, 252, 254, 256, 258, 260, 262, 264, 266, 268, 270, 272, 274, 276, 278, 280, 282, 284, 286, 288, 290, 292, 294, 296, 298)
;;
SELECT id FROM nums WHERE id::DOUBLE IN (0.5, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5, 8.5, 9.5, 10.5, 11.5, 12.5, 13.5, 14.5, 15.5, 16.5, 17.5, 18.5, 19.5, 3, 4) OR id = ANY([-60, -51, -42, -33, -24, -15, -6, 3, 12, 21, 30, 39, 48, 57])
;;
SELECT k FROM plays WHERE ok IN (true, NULL) AND k NOT IN (0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30, 32, 34, 36, 38, 40, 42, 44, 46, 48, 50, 52, 54, 56, 58, 60, 62, 64, 66, 68, 70, 72, 74, 76, 78, 80, 82, 84, 86, 88, 90, 92, 94, 96, 98, 100, 102, 104, 106, 108, 110, 112, 114, 116, 118, 120, 122, 124, 126, 128, 130, 132, 134, 136, 138, 140, 142, 144, 146, 148, 150, 152, 154, 156, 158, 160, 162, 164, 166, 168, 170, 172, 174, 176, 178, 180, 182, 184, 186, 188, 190, 192, 194, 196, 198)
;;
SELECT list_contains(['u0', 'u2', 'u4', 'u6', 'u8', 'u10', 'u12', 'u14', 'u16', 'u18', 'u20', 'u22', 'u24', 'u26', 'u28', 'u30', 'u32', 'u34', 'u36', 'u38', 'u40', 'u42', 'u44', 'u46', 'u48', 'u50', 'u52', 'u54', 'u56', 'u58'], usr) AS c, count(*) FROM plays GROUP BY 1
;;
SELECT k FROM plays WHERE usr IN (SELECT unnest(['u0', 'u2', 'u4', 'u6', 'u8', 'u10', 'u12', 'u14', 'u16', 'u18', 'u20', 'u22', 'u24', 'u26', 'u28', 'u30', 'u32', 'u34', 'u36', 'u38', 'u40', 'u42', 'u44', 'u46', 'u48', 'u50', 'u52', 'u54', 'u56', 'u58']))
;;
SELECT usr FROM users WHERE usr IN ('u0', 'u2', 'u4', 'u6', 'u8', 'u10', 'u12', 'u14', 'u16', 'u18', 'u20', 'u22', 'u24', 'u26', 'u28', 'u30', 'u32', 'u34', 'u36', 'u38', 'u40', 'u42', 'u44', 'u46', 'u48', 'u50', 'u52', 'u54', 'u56', 'u58') AND usr IN ('u6', 'u8', 'u10', 'u12', 'u14', 'u16', 'u18', 'u20', 'u22', 'u24', 'u26', 'u28', 'u30', 'u32', 'u34', 'u36', 'u38', 'u40', 'u42', 'u44', 'u46', 'u48', 'u50', 'u52', 'u54', 'u56', 'u58') AND rank IN (0, 1, 2, 3, 4, 5, 6, 7, 8, 9) ORDER BY usr LIMIT 4
;;
SELECT k, k IN (0, 3, 6, 9, 12, 15, 18, 21, 24, 27, 30, 33, 36, 39, 42, 45, 48, 51, 54, 57, 60, 63, 66, 69, 72, 75, 78, 81, 84, 87, 90, 93, 96, 99, 102, 105, 108, 111, 114, 117, 120, 123, 126, 129, 132, 135, 138, 141, 144, 147, 150, 153, 156, 159, 162, 165, 168, 171, 174, 177, 180, 183, 186, 189, 192, 195, 198) AS x FROM plays WHERE k < 10 ORDER BY x, k
;;
SELECT usr, sum(n) FILTER (WHERE k IN (0, 3, 6, 9, 12, 15, 18, 21, 24, 27, 30, 33, 36, 39, 42, 45, 48, 51, 54, 57, 60, 63, 66, 69, 72, 75, 78, 81, 84, 87, 90, 93, 96, 99, 102, 105, 108, 111, 114, 117, 120, 123, 126, 129, 132, 135, 138, 141, 144, 147, 150, 153, 156, 159, 162, 165, 168, 171, 174, 177, 180, 183, 186, 189, 192, 195, 198)) AS s FROM plays GROUP BY usr
;;
SELECT * FROM (VALUES (0, 0.0, 'x0', NULL), (1, 0.5, 'x1', NULL), (2, 1.0, 'x2', NULL), (3, 1.5, 'x3', NULL), (4, 2.0, 'x4', NULL), (5, 2.5, 'x5', NULL), (6, 3.0, 'x6', NULL), (7, 3.5, 'x7', NULL), (8, 4.0, 'x8', NULL), (9, 4.5, 'x9', NULL), (10, 5.0, 'x10', NULL), (11, 5.5, 'x11', NULL), (12, 6.0, 'x12', NULL), (13, 6.5, 'x13', NULL), (14, 7.0, 'x14', NULL), (15, 7.5, 'x15', NULL), (16, 8.0, 'x16', NULL), (17, 8.5, 'x17', NULL), (18, 9.0, 'x18', NULL), (19, 9.5, 'x19', NULL)) t(a, b, c, d) JOIN plays ON plays.k = t.a
;;
SELECT col0, col1 FROM (VALUES (1, 'a'), (2.5, 'b'), (NULL, NULL)) WHERE col0 < 3 UNION ALL SELECT k, usr FROM plays WHERE k < 2
;;
VALUES (1, 'a'), (2, 'b')
;;
SELECT t.a, count(p.k) FROM (VALUES ('2024-05-01'::DATE), ('2024-05-02'), ('2024-05-20')) t(a) LEFT JOIN plays p ON p.day = t.a GROUP BY 1
;;
SELECT time_bucket(INTERVAL '1 day', tz, 'Europe/Berlin') AS b FROM nums
;;
SELECT time_bucket(INTERVAL '6 hours', "at", INTERVAL '1 hour') AS b, time_bucket(INTERVAL '1 week', "at", TIMESTAMP '2024-05-01') AS c, time_bucket(INTERVAL '1 month', day) AS d, time_bucket(INTERVAL '1 day', tz, INTERVAL '3 hours') AS e FROM plays, nums WHERE k = id
;;
SELECT timezone('Europe/Berlin', "at") AS a, "at"::TIMESTAMPTZ AS b, timezone('Asia/Tokyo', "at"::TIMESTAMPTZ) AS c, make_timestamptz(2024, 5, 1, 10, 0, 0, 'Europe/Istanbul') AS d FROM plays WHERE k < 10
;;
SELECT strptime('2024-05-01', ['%d.%m.%Y', '%Y-%m-%d']) AS a, try_strptime(day::VARCHAR, '%Y-%m-%d') AS b, strftime(day, '%A %B %j %U %-d') AS c, strftime('%d/%m', day) AS d FROM plays WHERE k < 10
;;
SELECT to_weeks(k::INT) AS a, to_months(k::INT) AS b, to_years(k::INT) AS c, to_minutes(k) AS d, to_seconds(k) AS e, to_milliseconds(k) AS f, INTERVAL (k) DAYS AS g, INTERVAL '1 day 2 hours' AS h, '3 months'::INTERVAL AS i, (k || ' days')::INTERVAL AS j FROM plays WHERE k < 5
;;
SELECT date_part('epoch', INTERVAL 1 HOUR) AS a, extract(epoch FROM "at" - TIMESTAMP '2024-05-01') AS b, datepart('isoyear', day) AS c, datetrunc('month', day) AS d, datesub('day', DATE '2024-05-01', day) AS e, julian(day) AS f, century(day) AS g, era(day) AS h, weekofyear(day) AS i, yearweek(day) AS j, isoyear(day) AS l, dayofyear(day) AS m, weekday(day) AS o FROM plays WHERE k < 10
;;
SELECT extract(hours FROM "at") AS a, extract(mins FROM "at") AS b, extract(ms FROM "at") AS c, extract(us FROM "at") AS d, date_part('dayofweek', "at") AS e, date_part('w', "at") AS f, date_part('timezone', tz) AS g, date_trunc('minutes', "at") AS h, date_trunc('decade', "at") AS i, date_diff('quarter', DATE '2023-01-01', day) AS j, date_diff('hours', TIMESTAMP '2024-05-01', "at") AS l FROM plays JOIN nums ON k = id
;;
SELECT unnest(generate_series(min("at"), max("at"), INTERVAL 1 DAY)) AS d FROM plays
;;
SELECT unnest(range(min(day), max(day), INTERVAL 2 DAY)) AS d, count(*) AS c FROM plays
;;
SELECT g.d::DATE AS d, (SELECT count(*) FROM plays p WHERE p.day = g.d) AS c FROM (SELECT unnest(generate_series((SELECT min(day) FROM plays), (SELECT max(day) FROM plays), INTERVAL 1 DAY)) AS d) g ORDER BY d
;;
SELECT d::DATE AS d, count(e.usr) AS c FROM generate_series((SELECT date_trunc('day', min("at")) FROM events), (SELECT max("at") FROM events), INTERVAL '1 day') AS t(d) LEFT JOIN events e ON e."at" >= d AND e."at" < d + INTERVAL 1 DAY GROUP BY d ORDER BY d
;;
WITH b AS (SELECT min(day) AS lo, max(day) AS hi FROM plays) SELECT t.d::DATE AS d, count(p.k) AS c FROM b, generate_series(b.lo, b.hi, INTERVAL 1 DAY) t(d) LEFT JOIN plays p ON p.day = t.d GROUP BY 1
;;
WITH b AS (SELECT min(day) AS lo, max(day) AS hi FROM plays), sp AS (SELECT t.d::DATE AS d FROM b, LATERAL generate_series(b.lo, b.hi, INTERVAL 1 DAY) t(d)) SELECT sp.d, count(p.k) AS c FROM sp LEFT JOIN plays p ON p.day = sp.d GROUP BY sp.d
;;
SELECT list_transform(range(5), lambda i: i * 2) AS a, list_reduce([1, 2, 3], lambda x, y: x + y) AS b, list_filter(tags, lambda t: t IS NOT NULL AND t <> 'a') AS c, list_transform(tags, lambda t, i: t || i) AS d FROM plays WHERE k < 20
;;
SELECT usr, list_transform(list_sort(list(n)), lambda x, i: x * i) AS a, list_sum(list_transform(list(n), lambda x: CASE WHEN x > 0 THEN x ELSE 0 END)) AS b FROM plays GROUP BY usr
;;
SELECT round(n / 3.0, 1) AS a, round(price, -1) AS b, round(score, 1) AS c, round_even(price, 1) AS d, log(10, abs(n) + 1) AS e, log(abs(n) + 1) AS f, ln(abs(n) + 1) AS g, log2(abs(n) + 1) AS h, pow(n, 2) AS i, sqrt(abs(n)) AS j, cbrt(n) AS l, exp(n / 50.0) AS m, mod(n, 7) AS o, gcd(n, 12) AS p, fmod(n, 3.5) AS q FROM plays WHERE k < 30
;;
SELECT substring(name, 2, 3) AS a, substring(name FROM 2 FOR 2) AS b, left(name, -1) AS c, right(name, -1) AS d, position('n' IN name) AS e, overlay(name PLACING 'X' FROM 1 FOR 1) AS f FROM users
;;
SELECT regexp_replace(name, '(\w)(\w*)', '\2\1') AS a, regexp_extract(name, '(?P<x>[A-Z])', 1) AS b, regexp_extract(name, '([a-z])([a-z])', ['p', 'q']) AS c, regexp_matches(name, 'ANN', 'i') AS d, regexp_full_match(name, '\D+\d') AS e, regexp_split_to_array(name, '\d') AS f, name SIMILAR TO '%n%' AS g, name !~ 'n' AS h, name ~~ 'A%' AS i, name !~~* 'a%' AS j FROM users
;;
SELECT string_split(usr || ',' || coalesce(name, '') || ',x', ',') AS a, split_part('a,b,c', ',', -1) AS b, string_split_regex(usr, '\d') AS c, str_split(usr, 'u')[2] AS d, array_to_string([usr, NULL, name], '/') AS e, list_string.x AS f FROM users, (SELECT ['q', 'r'] AS x) list_string
;;
SELECT format('{0} {1:03d} {0}', usr, rank) AS a, format('{:,}', 1234567) AS b, printf('%-5s|%5.1f', usr, rank::DOUBLE) AS c, formatReadableSize(rank * 1000) AS d, format_bytes(1500) AS e, to_base(rank, 2) AS f, bin(rank) AS g, hex(rank) AS h, chr(65 + rank) AS i FROM users
;;
SELECT approx_quantile(v, 0.5) BETWEEN 0 AND 100 AS a, quantile_cont(v, [0.25, 0.5, 0.75]) AS q, quantile_disc(v, [0.1, 0.9]) AS d, quantile(v, 0.5) AS m, percentile_cont([0.2, 0.8]) WITHIN GROUP (ORDER BY v) AS p FROM events
;;
SELECT kind, quantile_cont(v, 0.5) FILTER (WHERE usr < 'u2') AS a, percentile_cont(0.1) WITHIN GROUP (ORDER BY v DESC) FILTER (WHERE usr > 'u1') AS b, mode() WITHIN GROUP (ORDER BY usr < 'u3') AS c, median(DISTINCT v) AS d FROM events GROUP BY kind
;;
SELECT round(weighted_avg(n, k), 6) AS w, round(favg(n), 6) AS f, round(sem(n), 6) AS s, round(var_pop(n), 4) AS vp, round(entropy(usr), 6) AS e, round(kurtosis_pop(n), 6) AS kp, mad(n) AS m, round(regr_avgx(n, k), 4) AS rx, round(regr_sxx(n, k), 2) AS sx, approx_top_k(ok, 1) AS tk FROM plays
;;
SELECT json_structure(to_json(s)) AS a, json_type(to_json(tags)) AS b, json_array_length(to_json(tags)) AS c, json_transform(to_json(s), '{"x":"INT"}') AS d, json_contains(to_json(tags), '"a"') AS e, json_exists(to_json(s), '$.x') AS f, json_extract_path_text(to_json(s), 'y') AS g, to_json(s)::VARCHAR AS h, json(to_json(s)) AS i, json_quote(usr) AS j, array_to_json(tags) AS l, row_to_json(s) AS m FROM plays WHERE k < 40
;;
SELECT k, j.a.b AS x, j['a']['b'] AS y, struct_extract(j, 'a').b AS z, struct_insert(j.a, c := 1) AS w, struct_keys(j) AS sk FROM (SELECT k, {'a': {'b': n}} AS j FROM plays WHERE k < 5)
;;
SELECT struct_pack(a := usr, b := sum(n)) AS s, {'u': usr, 'c': count(*)}.c AS c, [usr, max(song)] AS l, MAP {usr: count(*)} AS m, row(usr, count(*)) AS r FROM plays WHERE usr IS NOT NULL GROUP BY usr
;;
SELECT st.u AS u, max(st.n) AS m FROM (SELECT {'u': usr, 'n': n} AS st FROM plays) GROUP BY st.u HAVING max(st.n) > 40 ORDER BY st.u
;;
SELECT count(*) FROM plays TABLESAMPLE 100%
;;
SELECT d, u, sum(c) OVER (PARTITION BY u ORDER BY d RANGE BETWEEN UNBOUNDED PRECEDING AND INTERVAL 1 DAY PRECEDING) AS before FROM (SELECT day AS d, usr AS u, count(*) AS c FROM plays WHERE day IS NOT NULL AND usr IS NOT NULL GROUP BY ALL) ORDER BY u, d
;;
SELECT k, sum(n) OVER (ORDER BY k RANGE BETWEEN 10 PRECEDING AND 10 FOLLOWING EXCLUDE GROUP) AS a, avg(price) OVER (ORDER BY k ROWS 3 PRECEDING)::DECIMAL(10, 3) AS b, array_agg(n) OVER (ORDER BY k ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS c, string_agg(usr, ',') OVER (PARTITION BY ok ORDER BY k ROWS 2 PRECEDING) AS d FROM plays
;;
SELECT k, count(DISTINCT usr) OVER (ORDER BY k ROWS BETWEEN 9 PRECEDING AND CURRENT ROW) AS u, median(n) OVER (PARTITION BY day) AS m, mode(ok) OVER (ORDER BY k ROWS 4 PRECEDING) IS NULL AS mo, arg_max(song, k) OVER (PARTITION BY usr) AS am, first_value(k ORDER BY n DESC, k) OVER (PARTITION BY usr) AS fv FROM plays
;;
SELECT k, rank() OVER (PARTITION BY ok ORDER BY n DESC NULLS LAST) AS r, row_number() OVER (PARTITION BY ok ORDER BY n DESC NULLS LAST, k) AS rn, ntile(4) OVER (ORDER BY k DESC) AS q, percent_rank() OVER (ORDER BY n, k)::DECIMAL(6, 4) AS pr FROM plays WHERE n IS NOT NULL
;;
SELECT * FROM events e ASOF JOIN events p ON e.usr = p.usr AND e."at" > p."at" WHERE e.kind = 'buy' AND p.kind = 'view' ORDER BY e.usr, e."at"
;;
SELECT e.usr, e."at", p."at" AS vat FROM (FROM events WHERE kind = 'buy') e ASOF LEFT JOIN (FROM events WHERE kind = 'view') p USING (usr, "at") ORDER BY 1, 2
;;
SELECT e.kind, count(*) AS c, round(avg(epoch(e."at" - p."at")), 2) AS sec FROM (FROM events WHERE kind = 'buy') e ASOF LEFT JOIN (FROM events WHERE kind = 'view') p ON e.usr = p.usr AND e."at" >= p."at" GROUP BY 1
;;
SELECT n.id, p.k, p.n FROM nums n ASOF JOIN plays p ON n.id >= p.k AND p.ok ORDER BY n.id
;;
SELECT n.id, p.k, p.n FROM nums n ASOF JOIN (SELECT * FROM plays WHERE ok) p ON n.id >= p.k ORDER BY n.id
;;
SELECT usr, count(*) FILTER (WHERE kind = 'buy')::DOUBLE / nullif(count(*) FILTER (WHERE kind = 'view'), 0) AS r, count(*) FILTER (kind = 'buy') > 3 AS big FROM events GROUP BY usr ORDER BY r DESC NULLS LAST, usr
;;
SELECT usr, n FROM plays WHERE usr IS NOT NULL AND n IS NOT NULL ORDER BY usr COLLATE NOCASE DESC, n, k LIMIT 5
;;
SELECT name FROM users WHERE name IS NOT NULL ORDER BY name COLLATE NOCASE, usr
;;
SELECT lower(name) COLLATE NOACCENT AS nm, count(*) AS c FROM users GROUP BY nm ORDER BY nm
;;
SELECT "at"::DATE AS "at", count(*) AS c FROM events GROUP BY "at"::DATE ORDER BY "at"
;;
SELECT date_trunc('day', "at") AS "at", count(*) AS c FROM events GROUP BY "at" HAVING count(*) > 1
;;
SELECT date_trunc('day', "at") AS "at", count(*) AS c FROM events GROUP BY 1 ORDER BY 1
;;
SELECT kind, count(*) AS "at" FROM events GROUP BY kind ORDER BY "at" DESC, kind
;;
SELECT min("at") AS "at", kind FROM events WHERE "at" > '2024-05-05' GROUP BY kind HAVING min("at") > '2024-05-05 00:00:01' ORDER BY "at"
;;
WITH a AS (SELECT usr FROM users WHERE rank > 3) SELECT * FROM (WITH a AS (SELECT usr FROM users WHERE rank < 3) SELECT * FROM a UNION ALL SELECT * FROM (WITH b AS (SELECT * FROM a) SELECT * FROM b)) UNION ALL SELECT * FROM a ORDER BY 1
;;
WITH a AS (SELECT 1 AS x), b AS (WITH a AS (SELECT 2 AS x) SELECT a.x, u.usr FROM a, users u WHERE u.usr < 'u11') SELECT a.x AS ax, b.x AS bx, b.usr FROM a, b
;;
WITH u AS (SELECT usr, rank FROM users) SELECT u.usr FROM (SELECT usr FROM u WHERE rank > 4) u JOIN u AS v ON v.usr = u.usr WHERE v.rank < 8
;;
SELECT p.usr FROM (SELECT usr, count(*) AS n FROM plays GROUP BY usr) p WHERE p.n = (SELECT max(p.n) FROM (SELECT count(*) AS n FROM plays GROUP BY usr) p)
;;
SELECT usr, (SELECT count(*) FROM plays WHERE plays.usr = users.usr AND rank > 4) AS c FROM users ORDER BY usr
;;
SELECT usr, (SELECT count(*) FROM plays p WHERE usr = users.usr) AS c, (SELECT count(*) FROM plays WHERE usr = usr) AS d FROM users ORDER BY usr
;;
SELECT usr FROM users WHERE EXISTS (SELECT 1 FROM plays WHERE usr = usr AND k < 0) OR rank = 3
;;
SELECT name FROM users WHERE rank IN (SELECT rank FROM songs WHERE genre = 'pop' AND len > 350)
;;
SELECT usr, rank FROM users o WHERE rank = (SELECT min(rank) FROM users i WHERE i.country = o.country) AND EXISTS (SELECT 1 FROM users i WHERE i.country = o.country AND i.usr <> o.usr) ORDER BY usr
;;
SELECT a.usr, (SELECT (SELECT count(*) FROM events e WHERE e.usr = a.usr AND e.kind = b.kind) FROM (SELECT 'buy' AS kind) b) AS buys FROM users a
;;
SELECT a.usr, (SELECT max((SELECT count(*) FROM events e WHERE e.usr = p.usr)) FROM plays p WHERE p.usr = a.usr) AS m FROM users a
;;
SELECT country, (SELECT count(*) FROM users i WHERE i.country = o.country) AS c, count(*) AS n FROM users o GROUP BY country ORDER BY country
;;
SELECT country, max(rank) AS m, (SELECT string_agg(i.usr, ',' ORDER BY i.usr) FROM users i WHERE i.country = o.country AND i.rank = max(o.rank)) AS who FROM users o GROUP BY country
;;
SELECT usr, n, rank() OVER (PARTITION BY usr ORDER BY n DESC, k) AS rank FROM plays WHERE n > 30 QUALIFY rank = 1 ORDER BY rank, usr
;;
SELECT usr, rank() OVER (ORDER BY rank DESC, usr) AS rank FROM users QUALIFY rank <= 5 ORDER BY 1
;;
SELECT usr, rank + 1 AS rank FROM users WHERE rank = 3 ORDER BY usr
;;
SELECT country, sum(rank) AS rank FROM users GROUP BY country HAVING sum(rank) > 10 ORDER BY rank
;;
SELECT country AS usr, count(*) AS country FROM users GROUP BY users.country ORDER BY users.country
;;
SELECT u.country AS c, count(*) AS n FROM users u GROUP BY c HAVING c IS NOT NULL AND n > 1 ORDER BY c
;;
SELECT kind, sum(v) OVER (PARTITION BY kind) AS v, v AS raw FROM events WHERE usr = 'u1' ORDER BY "at"
;;
SELECT x.d, count(*) AS c FROM (SELECT day AS d FROM plays) x, (SELECT max(day) AS d FROM plays) y WHERE x.d = y.d GROUP BY x.d
;;
SELECT d, count(*) FROM (SELECT "at"::DATE AS d, * FROM events) GROUP BY d ORDER BY d
;;
SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY usr ORDER BY "at" DESC) AS rn FROM (SELECT *, v * 2 AS v2 FROM events WHERE v IS NOT NULL)) WHERE rn = 1 AND v2 > 150
;;
SELECT q.* FROM (SELECT p.k, p.n, u.* FROM plays p LEFT JOIN users u ON u.usr = p.usr) q WHERE q.rank IS NULL AND q.k > 180
;;
SELECT p.* EXCLUDE (m, raw, tags, s), u.country FROM plays p LEFT JOIN users u USING (usr) WHERE p.k > 190
;;
SELECT count(*) AS c FROM plays p, plays q, plays r WHERE p.k = q.k AND q.k = r.k AND p.n > 0 AND r.n < 20
;;
SELECT p.k FROM plays p JOIN plays q ON p.k = q.k WHERE p.k IN (1, 2, 3) AND q.k IN (2, 3, 4) OR p.k = 9
;;
SELECT e.usr, u.rank FROM events e LEFT JOIN users u ON u.usr = e.usr WHERE u.usr = 'u7' AND e.v > 50 ORDER BY e."at"
;;
SELECT e.usr, u.rank, p.k FROM events e LEFT JOIN users u ON u.usr = e.usr LEFT JOIN plays p ON p.usr = u.usr AND p.ok WHERE e.usr = 'u7' AND e.kind = 'buy' ORDER BY e."at", p.k
;;
SELECT u.usr, count(e.usr) AS c FROM users u LEFT JOIN events e ON e.usr = u.usr AND e.usr IN ('u1', 'u2') GROUP BY u.usr ORDER BY u.usr
;;
SELECT u.usr FROM users u ANTI JOIN events e ON e.usr = u.usr AND e.kind = 'buy' WHERE u.usr IN ('u1', 'u22', 'u23')
;;
SELECT t.usr, t.c FROM (SELECT usr, count(*) AS c FROM events GROUP BY usr UNION ALL SELECT usr, count(*) FROM plays GROUP BY usr) t WHERE t.usr = 'u3' OR t.c > 18 ORDER BY 1, 2
;;
SELECT t.d, t.c FROM (SELECT day AS d, count(*) AS c FROM plays GROUP BY day UNION SELECT "at"::DATE, count(*) FROM events GROUP BY 1) t WHERE t.d > '2024-05-07 10:00:00'
;;
WITH t AS (SELECT day AS d, usr FROM plays) SELECT count(*) FROM t WHERE d >= '2024-05-05 06:00:00' UNION ALL SELECT count(*) FROM t WHERE d < '2024-05-05 06:00:00'
;;
SELECT p.k FROM plays p JOIN users u ON p.day >= u.born AND u.born >= '2000-01-01 01:00:00' WHERE p.k < 3 ORDER BY 1
;;
SELECT count(*) FROM users WHERE born >= '1999-01-01T00:00:01' AND born <= '2005-12-31 23:59:59'
;;
SELECT count(*) FROM users WHERE born BETWEEN '1960-03-03 23:00:00' AND '2005-12-31 23:59:59.999'
;;
SELECT usr FROM users WHERE born >= (SELECT min(born) FROM users WHERE born > '1980-01-01 10:00:00') ORDER BY usr
