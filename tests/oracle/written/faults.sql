SELECT count(*) FROM plays WHERE day >= '2024-05-03 12:00:00'
;;
SELECT count(*) FROM plays WHERE day BETWEEN '2024-05-03 12:00:00' AND '2024-05-09'
;;
PIVOT (SELECT ok, (SELECT count(*) FROM users u WHERE u.usr = p.usr) AS c FROM plays p) ON ok IN (true) USING sum(c)
;;
UNPIVOT (SELECT usr, (SELECT count(*) FROM plays p WHERE p.usr = u.usr) AS c FROM users u) ON c INTO NAME a VALUE b
;;
PIVOT (SELECT e.kind FROM events e JOIN users u ON u.usr = e.usr) ON kind IN ('buy') USING count(*)
;;
PIVOT (SELECT s.y AS y FROM plays) ON y IN ('p') USING count(*)
;;
SELECT * FROM (SELECT ok, s, n AS x FROM plays) PIVOT (sum(s.x) FOR ok IN (true))
;;
SELECT * FROM (SELECT ok, s, n AS x FROM plays) AS t PIVOT (sum(t.x) FOR ok IN (true))
;;
SELECT date_trunc(d, "at") AS x FROM events, (SELECT 'month' AS d) WHERE usr = 'u1'
;;
SELECT date_trunc(grain, "at") AS x FROM events, (SELECT 'month' AS grain) WHERE usr = 'u1'
;;
SELECT date_diff(d, TIMESTAMP '2024-05-01', "at") AS x FROM events, (SELECT 'hour' AS d) WHERE usr = 'u1'
;;
SELECT time_bucket(INTERVAL '1 day', tz, 'Europe/Berlin') FROM nums
;;
SELECT time_bucket(INTERVAL '2 days', day, born) FROM plays JOIN users USING (usr)
;;
SELECT count(*) OVER w AS c, (SELECT max(r) FROM (SELECT row_number() OVER w AS r FROM users WINDOW w AS (PARTITION BY usr))) AS m FROM plays WINDOW w AS (ORDER BY k)
;;
SELECT usr FROM users WHERE usr IN (SELECT usr FROM events WINDOW w AS (PARTITION BY usr ORDER BY "at") QUALIFY row_number() OVER w = 12) WINDOW w AS (ORDER BY usr) QUALIFY row_number() OVER w > 0
;;
SELECT count(*) FROM (SELECT DISTINCT * EXCLUDE (a.usr) FROM (SELECT usr, country FROM users) a, (SELECT usr FROM users) b)
;;
SELECT * EXCLUDE (p.usr) FROM plays p JOIN users u ON p.usr = u.usr
;;
SELECT n % 2 AS par, count(*) FROM plays GROUP BY ALL HAVING par = 0
;;
SELECT n % 2, count(*) FROM plays GROUP BY ALL HAVING n % 2 = 0
;;
SELECT usr, count(*) FROM plays GROUP BY ALL HAVING ok
;;
PIVOT events ON kind IN ('buy') USING list(v ORDER BY "at"), max(v)
;;
PIVOT events ON kind || 'x' IN ('buyx') USING count(*)
;;
PIVOT events ON kind IN ('buy') USING count(*) GROUP BY usr ORDER BY usr
;;
SELECT bool_and(b >= pb) AS sorted FROM (SELECT b, lag(b) OVER (ORDER BY rn) AS pb FROM (SELECT b, row_number() OVER () AS rn FROM (SELECT random() AS a, random() AS b FROM plays ORDER BY b)))
;;
SELECT approx_top_k(ok, 1) FROM plays
;;
SELECT count(*) FROM plays WHERE '2024-05-03 12:00:00' <= day
;;
SELECT count(*) FROM plays WHERE day < '2024-05-03 12:00:00'
;;
SELECT count(*) FROM plays WHERE day >= TIMESTAMP '2024-05-03 12:00:00'
;;
WITH t AS (SELECT day AS d FROM plays) SELECT count(*) FROM t WHERE d >= '2024-05-05 06:00:00'
;;
SELECT usr, count(*) OVER w AS c FROM users WHERE usr IN (SELECT usr FROM events WINDOW w AS (PARTITION BY usr ORDER BY "at") QUALIFY row_number() OVER w = 12) WINDOW w AS (ORDER BY usr)
;;
SELECT usr, count(*) FROM (SELECT * EXCLUDE (u.usr) FROM plays p JOIN users u ON u.usr = p.usr) GROUP BY usr
;;
SELECT bool_and(b >= pb) FROM (SELECT b, lag(b) OVER (ORDER BY rn) AS pb FROM (SELECT b, row_number() OVER () AS rn FROM (SELECT random() AS a, random() AS b FROM plays ORDER BY b)))
;;
SELECT k, k + 1 AS a, k + 1 AS b FROM plays ORDER BY b
;;
PIVOT events ON hour("at") // 6 IN (0, 1) USING count(*)
;;
PIVOT events ON (kind || 'x') IN ('buyx') USING count(*)
;;
PIVOT events ON kind IN ('buy') USING count(*)
;;
PIVOT events ON upper(kind) IN ('BUY') USING count(*)
;;
PIVOT plays ON s.y IN ('p') USING count(*)
;;
PIVOT events ON -v IN (1) USING count(*)
;;
SELECT k, sum(n) OVER (GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM plays ORDER BY k
;;
SELECT k, sum(n) OVER w FROM plays WINDOW w AS (groups UNBOUNDED PRECEDING) ORDER BY k
;;
SELECT k, sum(n) OVER (GROUPS CURRENT ROW) AS s FROM plays ORDER BY k
;;
SELECT k, sum(n) OVER (groups 2 PRECEDING) AS s FROM plays ORDER BY k
;;
SELECT k, sum(n) OVER (groups ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS s FROM plays WINDOW groups AS (ORDER BY k) ORDER BY k
;;
SELECT k, sum(n) OVER (groups GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW) AS s FROM plays WINDOW groups AS (ORDER BY k) ORDER BY k
;;
SELECT groups, (groups BETWEEN 1 AND 4) AS x FROM (SELECT k AS groups FROM plays) ORDER BY 1
;;
SELECT k, sum(n) OVER (PARTITION BY ok GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM plays ORDER BY k
;;
SELECT k, sum(n) OVER (GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW EXCLUDE TIES) FROM plays ORDER BY k
;;
SELECT 1e3-1e2 AS a, n+1e1-1e0*2 AS b, 1.5e1+2.5e-1 AS c FROM plays
;;
SELECT k FROM plays WHERE k < 1e2-1e1 AND n > 1e1-2e1 ORDER BY k
;;
SELECT k, tags[:n] AS a, tags[:n:1] AS b, usr[:length(song) - 1] AS c FROM plays
;;
SELECT k, INTERVAL 1 DAY + '2024-05-01'::DATE AS a, day + INTERVAL 1 DAY + 5 * INTERVAL 1 HOUR AS b FROM plays
;;
SELECT k FROM plays WHERE day < INTERVAL 2 DAYS + '2024-05-01'::DATE
;;
SELECT upper('{"a": "b"}' -> 'a') AS a, concat(usr, '{"a": "b"}' -> 'a') AS b FROM users
;;
SELECT k, [x FOR x IN tags IF x IN ['a', 'b']][1] AS a, [x || usr FOR x IN tags][-1] AS b FROM plays
;;
SELECT k, last(n IGNORE NULLS) OVER (PARTITION BY usr ORDER BY k) AS a, first(n IGNORE NULLS) OVER (ORDER BY k) AS b FROM plays
;;
SELECT usr, percentile_disc(CAST(0.5 AS DOUBLE)) WITHIN GROUP (ORDER BY abs(n)) AS a FROM plays GROUP BY usr
;;
SELECT k FROM plays ORDER BY k LIMIT (SELECT max(rank) FROM users) % OFFSET 2
;;
PIVOT users USING sum(rank), max(born) AS m GROUP BY country
;;
SELECT u.usr, p.c FROM users u LEFT JOIN (PIVOT plays USING count(*) AS c GROUP BY usr) p USING (usr)
;;
SELECT l.usr, l.title, r.kind FROM (plays JOIN songs USING (song)) l JOIN events r ON l.usr = r.usr AND l.n > 40
;;
SELECT * FROM (plays JOIN songs ON plays.song = songs.song) l WHERE l.song_1 = 's1'
;;
SELECT m.usr, m.kind FROM ((users JOIN events USING (usr)) l JOIN plays p ON l.usr = p.usr) m WHERE k = 3
;;
SELECT x, y, count(*) FROM (users JOIN songs ON rank = len % 10) l(x, y) GROUP BY ALL
;;
SELECT a, name FROM ((VALUES ('u1'), ('u2')) v(a) JOIN users u ON u.usr = v.a)
;;
SELECT * FROM ((VALUES ('u1'), ('u2')) AS v (a) CROSS JOIN (VALUES (3), (4)) AS w (b)) AS t JOIN users ON usr = t.a
;;
SELECT k, [] AS a, {'b': NULL} AS b, MAP {} AS c FROM plays ORDER BY k LIMIT 3
;;
SELECT DISTINCT [NULL] AS a, coalesce([], tags) AS b FROM plays
;;
SELECT ok, max([NULL]) AS a, struct_insert(any_value({'a': 1}), b := [NULL]) AS b FROM plays GROUP BY ok
;;
SELECT k, interval + 1 AS a, interval * 2 AS b FROM (SELECT k, n AS interval FROM plays) ORDER BY interval DESC, k
;;
SELECT k, string[1] AS a, text[2] AS b, list[1] AS c FROM (SELECT k, usr AS string, song AS text, tags AS list FROM plays) WHERE text[1] = 's'
;;
SELECT range, count(*) FROM (SELECT n AS range FROM plays) WHERE range < 3 GROUP BY range
;;
SELECT k, p.list[1] AS a, p."array"[2] AS b FROM (SELECT k, tags AS list, tags AS "array" FROM plays) p WHERE list[1] = 'a'
;;
SELECT b % 3 AS g, arg_min(id, (tz, id)) AS a, max((l, tz)) AS b, max(((tz, 1), 2)) AS c, max((NULL, id)) AS d FROM nums GROUP BY g
;;
SELECT n.id, x.r FROM nums n JOIN (SELECT b, max((tz, l)) AS r FROM nums GROUP BY b) x USING (b)
;;
SELECT id, (tz, l)::TUPLE(TIMESTAMP WITH TIME ZONE, INTEGER[]) AS a, CAST({'x': (id, [tz])} AS STRUCT(x TUPLE(BIGINT, DATE[]))) AS b FROM nums
;;
SELECT id, TRY_CAST((id, b) AS TUPLE(INTEGER, DECIMAL(18, 2))) AS a, NULL::MAP(TUPLE(INT, UUID), INT) AS b FROM nums
;;
SELECT tuple.x, y FROM (SELECT id, b FROM nums) AS tuple(x, y) ORDER BY tuple
;;
SELECT max(n::BIT)::VARCHAR AS a, max(n::VARIANT)::VARCHAR AS c FROM plays WHERE n > 0
;;
SELECT max(union_value(x := n))::VARCHAR AS b FROM plays
;;
SELECT x::VARCHAR AS a, count(*) AS c FROM (SELECT n::BIT AS x FROM plays) GROUP BY x
