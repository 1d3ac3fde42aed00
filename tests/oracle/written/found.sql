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
SELECT to_json(t) FROM (SELECT len(tags) FROM plays WHERE k = 1) t
;;
SELECT to_json(t) FROM (SELECT n::VARCHAR FROM plays WHERE k = 1) t
;;
SELECT t FROM (SELECT list(n) FROM plays WHERE k = 1) t
;;
UNPIVOT (SELECT usr, len(tags) FROM plays WHERE k < 3) ON COLUMNS(* EXCLUDE (usr)) INTO NAME a VALUE b
;;
SELECT "len(tags)" FROM (SELECT len(tags) FROM plays WHERE k < 3)
;;
SELECT * EXCLUDE ("list(n)") FROM (SELECT usr, list(n) FROM plays GROUP BY usr)
;;
SELECT "CAST(n AS VARCHAR)" FROM (SELECT n::VARCHAR FROM plays WHERE k < 3)
;;
PIVOT events ON kind IN ('buy') USING list(v ORDER BY "at"), max(v)
;;
SELECT "group_concat(usr)" FROM (SELECT group_concat(usr) FROM plays WHERE k < 2)
;;
SELECT "pow(n, 2)" FROM (SELECT pow(n, 2) FROM plays WHERE k < 3)
;;
SELECT "ceiling(n)" FROM (SELECT ceiling(n) FROM plays WHERE k < 3)
;;
SELECT "min_by(k, n)" FROM (SELECT min_by(k, n) FROM plays WHERE k < 3)
;;
PIVOT events ON kind || 'x' IN ('buyx') USING count(*)
;;
PIVOT events ON kind IN ('buy') USING count(*) GROUP BY usr ORDER BY usr
;;
SELECT interval + 1 FROM (SELECT n AS interval FROM plays WHERE k = 1)
;;
SELECT interval - 1 FROM (SELECT n AS interval FROM plays WHERE k = 1)
;;
SELECT range FROM (SELECT n AS range FROM plays) WHERE range < 5
;;
SELECT list FROM (SELECT n AS list FROM plays) WHERE list < 5
;;
SELECT object FROM (SELECT n AS object FROM plays) WHERE object < 5
;;
SELECT row FROM (SELECT n AS row FROM plays) WHERE row < 5
;;
SELECT list[1:2] FROM (SELECT tags AS list FROM plays WHERE k = 1)
;;
SELECT number[1] FROM (SELECT tags AS number FROM plays WHERE k = 1)
;;
SELECT string[1] FROM (SELECT usr AS string FROM plays WHERE k = 1)
;;
SELECT datetime['a'] FROM (SELECT {'a': n} AS datetime FROM plays WHERE k = 1)
;;
SELECT map FROM (SELECT m AS map FROM plays) WHERE map IS NOT NULL
;;
SELECT map['x'] FROM (SELECT m AS map FROM plays)
;;
SELECT if > 2 FROM (SELECT n AS if FROM plays)
;;
SELECT xor FROM (SELECT n AS xor FROM plays)
;;
SELECT force FROM (SELECT n AS force FROM plays)
;;
SELECT insert FROM (SELECT n AS insert FROM plays)
;;
SELECT values FROM (SELECT n values FROM plays)
;;
SELECT lock FROM (SELECT n AS lock FROM plays) GROUP BY lock
;;
SELECT rollup FROM (SELECT n AS rollup FROM plays) GROUP BY rollup
;;
SELECT cube FROM (SELECT n AS cube FROM plays) GROUP BY cube
;;
SELECT current_user FROM (SELECT usr AS current_user FROM users)
;;
SELECT session_user FROM (SELECT usr AS session_user FROM users)
;;
SELECT current_catalog FROM (SELECT usr AS current_catalog FROM users)
;;
SELECT {map: 1} AS m
;;
SELECT struct_pack(like := 1, map := 2, values := 3) AS m
;;
SELECT bool_and(b >= pb) AS sorted FROM (SELECT b, lag(b) OVER (ORDER BY rn) AS pb FROM (SELECT b, row_number() OVER () AS rn FROM (SELECT random() AS a, random() AS b FROM plays ORDER BY b)))
;;
SELECT approx_top_k(ok, 1) FROM plays

;;
SELECT count(*) FROM plays WHERE day >= '2024-05-03 12:00:00'
;;
SELECT count(*) FROM plays WHERE day BETWEEN '2024-05-03 12:00:00' AND '2024-05-09'
;;
SELECT count(*) FROM plays WHERE '2024-05-03 12:00:00' <= day
;;
SELECT count(*) FROM plays WHERE day < '2024-05-03 12:00:00'
;;
SELECT count(*) FROM plays WHERE day >= TIMESTAMP '2024-05-03 12:00:00'
;;
WITH t AS (SELECT day AS d FROM plays) SELECT count(*) FROM t WHERE d >= '2024-05-05 06:00:00'
;;
SELECT count(*) OVER w AS c, (SELECT max(r) FROM (SELECT row_number() OVER w AS r FROM users WINDOW w AS (PARTITION BY usr))) AS m FROM plays WINDOW w AS (ORDER BY k)
;;
SELECT usr, count(*) OVER w AS c FROM users WHERE usr IN (SELECT usr FROM events WINDOW w AS (PARTITION BY usr ORDER BY "at") QUALIFY row_number() OVER w = 12) WINDOW w AS (ORDER BY usr)
;;
SELECT count(*) FROM (SELECT DISTINCT * EXCLUDE (a.usr) FROM (SELECT usr, country FROM users) a, (SELECT usr FROM users) b)
;;
SELECT * EXCLUDE (p.usr) FROM plays p JOIN users u ON p.usr = u.usr
;;
SELECT usr, count(*) FROM (SELECT * EXCLUDE (u.usr) FROM plays p JOIN users u ON u.usr = p.usr) GROUP BY usr
;;
SELECT bool_and(b >= pb) FROM (SELECT b, lag(b) OVER (ORDER BY rn) AS pb FROM (SELECT b, row_number() OVER () AS rn FROM (SELECT random() AS a, random() AS b FROM plays ORDER BY b)))
;;
SELECT k, k + 1 AS a, k + 1 AS b FROM plays ORDER BY b
;;
PIVOT events ON kind || 'x' IN ('buyx') USING count(*)
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
