SELECT usr FROM plays WHERE n > 20 UNION SELECT usr FROM events WHERE kind = 'buy' EXCEPT SELECT usr FROM users WHERE country = 'DE'
;;
SELECT usr FROM plays WHERE n > 20 UNION (SELECT usr FROM events WHERE kind = 'buy' EXCEPT SELECT usr FROM users WHERE country = 'DE') ORDER BY 1 NULLS FIRST
;;
SELECT song FROM songs EXCEPT ALL SELECT song FROM plays WHERE ok
;;
SELECT song FROM plays EXCEPT ALL SELECT song FROM songs ORDER BY song DESC NULLS LAST
;;
SELECT usr, ok FROM plays INTERSECT ALL SELECT usr, v > 50 FROM events
;;
(SELECT 'best' AS what, k, n FROM plays ORDER BY n DESC NULLS LAST, k LIMIT 5)
UNION ALL
(SELECT 'worst', k, n FROM plays ORDER BY n ASC NULLS LAST, k LIMIT 5)
ORDER BY what, n, k
;;
SELECT k, usr, n FROM plays WHERE k < 10 UNION ALL BY NAME SELECT usr, name, rank AS n FROM users WHERE rank > 5
;;
SELECT 1 AS a, 'x' AS b UNION BY NAME SELECT 'x' AS b, 1 AS a UNION BY NAME SELECT 2.5 AS a, NULL AS c
;;
SELECT usr, country FROM users UNION BY NAME (SELECT country, usr FROM users LIMIT 0) ORDER BY country NULLS LAST, usr LIMIT 12 OFFSET 3
;;
SELECT id FROM empty UNION ALL SELECT id FROM nums WHERE id % 9 = 0 INTERSECT SELECT k FROM plays
;;
((SELECT id FROM nums) EXCEPT (SELECT k FROM plays)) UNION ALL ((SELECT k FROM plays) EXCEPT (SELECT id FROM nums)) ORDER BY id % 10, id DESC LIMIT 17
;;
SELECT * FROM (SELECT tags FROM plays UNION SELECT NULL UNION SELECT ['z', NULL]) AS q(t) ORDER BY len(t) NULLS FIRST, t
;;
SELECT s FROM plays WHERE k < 60 INTERSECT SELECT s FROM plays WHERE k >= 60
;;
SELECT m, ok FROM plays EXCEPT SELECT m, NOT ok FROM plays
;;
SELECT score + 0 FROM plays WHERE k IN (17, 40, 63, 64) UNION SELECT 'nan'::DOUBLE UNION SELECT 0
;;
SELECT count(*) AS c, 'plays' AS t FROM plays UNION ALL SELECT count(*), 'users' FROM users UNION ALL SELECT count(*), 'empty' FROM empty UNION ALL SELECT count(*), 'events' FROM events ORDER BY c DESC, t
;;
SELECT usr FROM users EXCEPT SELECT t FROM empty
;;
SELECT n::BIGINT AS v FROM plays INTERSECT SELECT b FROM nums INTERSECT SELECT len - 100 FROM songs
;;
SELECT n, price FROM plays WHERE k < 4 UNION ALL SELECT f, a FROM nums WHERE id BETWEEN 1 AND 4 UNION ALL SELECT NULL, NULL
;;
SELECT day FROM plays WHERE n > 40 UNION SELECT "at" FROM events WHERE v > 97 UNION SELECT tz::TIMESTAMP FROM nums WHERE id = 3
;;
SELECT kind FROM events UNION ALL SELECT genre FROM songs GROUP BY genre HAVING count(*) > 3 UNION SELECT t FROM empty ORDER BY ALL
;;
SELECT a FROM nums EXCEPT SELECT a, b FROM nums
;;
SELECT usr AS who FROM users UNION SELECT usr AS whom FROM plays ORDER BY whom
;;
WITH t AS (FROM plays SELECT usr, sum(n) AS total GROUP BY usr),
     r AS (FROM t SELECT *, rank() OVER (ORDER BY total DESC NULLS LAST) AS place),
     -- only the best of them
     b AS MATERIALIZED (FROM r WHERE place <= 4)
SELECT b.usr, b.place, u.country, (SELECT count(*) FROM b AS o WHERE o.total > b.total) AS above
FROM b LEFT JOIN users u ON u.usr = b.usr
ORDER BY place, b.usr
;;
WITH plays AS (SELECT * FROM plays WHERE ok) SELECT count(*), count(n), min(k), max(k) FROM plays
;;
WITH users(usr, n) AS (SELECT usr, count(*) FROM plays GROUP BY 1) SELECT usr, n FROM users WHERE n > (SELECT avg(n) FROM users)
;;
WITH a AS (SELECT 1 AS x), b AS (WITH a AS (SELECT 2 AS x) SELECT x FROM a) SELECT a.x, b.x FROM a, b
;;
WITH RECURSIVE c(i, f) AS (SELECT 1, 1::HUGEINT UNION ALL SELECT i + 1, f * (i + 1) FROM c WHERE i < 20) SELECT i, f FROM c ORDER BY i
;;
WITH RECURSIVE days(d) AS (
  SELECT DATE '2024-05-01'
  UNION ALL
  SELECT (d + INTERVAL 1 DAY)::DATE FROM days WHERE d < DATE '2024-05-12'
)
SELECT d, count(k) AS plays, count(DISTINCT usr) AS people, coalesce(sum(n), 0) AS n
FROM days LEFT JOIN plays ON day = d
GROUP BY d ORDER BY d
;;
WITH RECURSIVE reach(a, b) AS (
    SELECT DISTINCT usr, song FROM plays WHERE usr = 'u3' AND song IS NOT NULL
  UNION
    SELECT p.usr, q.song FROM reach r JOIN plays p ON p.song = r.b JOIN plays q ON q.usr = p.usr WHERE q.song IS NOT NULL AND p.n > 30 AND q.n > 30
) SELECT count(*), count(DISTINCT a), min(b), max(b) FROM reach
;;
WITH RECURSIVE up AS (SELECT 0 AS x UNION ALL SELECT x + 3 FROM up WHERE x < 30), dn AS (SELECT 30 AS x UNION ALL SELECT x - 4 FROM dn WHERE x > 0) SELECT x FROM up INTERSECT SELECT x FROM dn ORDER BY x
;;
WITH RECURSIVE collatz AS (SELECT id AS start, id::BIGINT AS v, 0 AS step FROM nums WHERE id BETWEEN 1 AND 12 UNION ALL SELECT start, CASE WHEN v % 2 = 0 THEN v // 2 ELSE 3 * v + 1 END, step + 1 FROM collatz WHERE v <> 1) SELECT start, max(step) AS steps, max(v) AS peak FROM collatz GROUP BY start ORDER BY ALL
;;
WITH RECURSIVE walk AS (SELECT k, n, [k] AS path FROM plays WHERE k = 1 UNION ALL SELECT p.k, p.n, list_append(w.path, p.k) FROM walk w, plays p WHERE p.k = w.k * 2 + 1) FROM walk ORDER BY k
;;
WITH RECURSIVE nothing AS (SELECT id FROM empty UNION ALL SELECT id + 1 FROM nothing WHERE id < 5) SELECT count(*), max(id) FROM nothing
;;
WITH x AS NOT MATERIALIZED (SELECT usr, max(v) AS mv FROM events GROUP BY usr) SELECT x1.usr, x2.usr FROM x x1 JOIN x x2 ON x1.mv < x2.mv AND x2.mv - x1.mv < 0.5 ORDER BY ALL
;;
WITH "Odd Name" ("a b", "select") AS (SELECT usr, rank FROM users) SELECT "a b" || '!' AS "from", "select" + 1 AS "SELECT " FROM "Odd Name" WHERE "select" IS NOT NULL ORDER BY "a b"
;;
WITH one AS (SELECT 1 AS v), two AS (SELECT v + 1 AS v FROM one), three AS (SELECT v * 2 AS v FROM two UNION ALL FROM one), four AS (SELECT sum(v) AS v FROM three) SELECT * FROM one, two, four
;;
SELECT (WITH q AS (SELECT max(n) AS m FROM plays WHERE plays.usr = users.usr) SELECT m FROM q) AS best, usr FROM users ORDER BY usr
;;
SELECT usr FROM users WHERE rank = (WITH q AS (FROM users SELECT max(rank) AS r) FROM q)
;;
WITH w AS (SELECT song FROM songs) SELECT count(*) FROM v
;;
SELECT usr, (SELECT count(*) FROM plays p WHERE p.usr = u.usr) AS plays, (SELECT max("at") FROM events e WHERE e.usr = u.usr AND kind = 'buy') AS last_buy FROM users AS u
;;
SELECT u.usr, u.rank FROM users u WHERE u.rank > (SELECT avg(i.rank) FROM users i WHERE i.country = u.country)
;;
SELECT country, count(*) AS c FROM users o GROUP BY country HAVING count(*) > (SELECT count(*) FROM users i WHERE i.country < o.country)
;;
SELECT usr, name FROM users u ORDER BY (SELECT count(*) FROM plays p WHERE p.usr = u.usr) DESC, usr LIMIT 9
;;
SELECT g.song, p.k FROM songs g JOIN plays p ON p.song = g.song AND p.n = (SELECT max(n) FROM plays q WHERE q.song = g.song)
;;
SELECT sum((SELECT count(*) FROM songs s WHERE s.genre = CASE WHEN ok THEN 'rock' ELSE 'pop' END)) FROM plays
;;
SELECT sum(rank * (SELECT count(*) FROM events e WHERE e.usr = u.usr)) AS weighted, country FROM users u GROUP BY country
;;
SELECT k, CASE WHEN EXISTS (FROM events e WHERE e.usr = p.usr AND e.v > 95) THEN 'big' WHEN n > (SELECT avg(n) FROM plays WHERE song = p.song) THEN 'above' ELSE (SELECT title FROM songs WHERE songs.song = p.song) END AS label FROM plays p WHERE k % 5 = 0 ORDER BY k
;;
SELECT usr FROM users u WHERE NOT EXISTS (SELECT * FROM plays WHERE usr = u.usr) AND EXISTS (SELECT 1/0 FROM events WHERE usr = u.usr)
;;
SELECT count(*) FROM plays WHERE EXISTS (FROM empty) OR NOT EXISTS (SELECT 1 FROM empty)
;;
SELECT usr, NOT EXISTS (SELECT 1 FROM empty WHERE t = usr) AS none, (SELECT v FROM empty WHERE t = usr) IS NULL AS nul FROM users WHERE usr NOT IN (SELECT t FROM empty) ORDER BY usr
;;
SELECT song, title NOT IN (SELECT title FROM songs x WHERE x.genre = 'pop' AND x.song < songs.song) AS fresh FROM songs ORDER BY song
;;
SELECT DISTINCT usr FROM events WHERE usr NOT IN (SELECT usr FROM plays WHERE usr IS NOT NULL AND n > 0) OR NOT (v NOT IN (SELECT v FROM empty))  ORDER BY usr DESC
;;
SELECT k, n NOT IN (SELECT rank FROM users), n IN (SELECT rank FROM users WHERE rank IS NOT NULL) FROM plays WHERE abs(n) < 6 ORDER BY 1
;;
SELECT usr FROM users WHERE (usr, country) IN (SELECT (usr, CASE WHEN v > 50 THEN 'DE' ELSE 'TR' END) FROM events)
;;
SELECT song, len FROM songs WHERE len > ALL (SELECT n * 5 FROM plays WHERE n IS NOT NULL) OR len < ANY (SELECT 100 + id FROM nums WHERE id > 0)
;;
SELECT song FROM songs WHERE len >= ALL (FROM songs SELECT len WHERE genre = 'jazz' AND len IS NOT NULL) AND genre != 'jazz'
;;
SELECT usr = ANY (SELECT usr FROM events WHERE kind IS NULL) AS odd, count(*) FROM users GROUP BY 1
;;
SELECT usr, (SELECT list(song ORDER BY k) FROM plays p WHERE p.usr = u.usr AND p.ok) AS songs, ARRAY(SELECT k FROM plays p WHERE p.usr = u.usr ORDER BY n DESC NULLS LAST, k LIMIT 3) AS ks FROM users u ORDER BY usr
;;
SELECT (SELECT k FROM plays) FROM songs
;;
SELECT a, (SELECT b) + 1 AS c, (SELECT max(x) FROM (VALUES (b::INT), (id)) v(x)) AS big FROM nums ORDER BY id LIMIT 11
;;
SELECT id, (SELECT sum(x) FROM unnest(l) AS t(x)) AS s, (SELECT count(*) FROM range(nums.b) r(i) WHERE i % 7 = 0) AS sevens FROM nums ORDER BY id
;;
SELECT u.usr, t.k, t.n FROM users u, LATERAL (SELECT k, n FROM plays p WHERE p.usr = u.usr ORDER BY n DESC NULLS LAST, k LIMIT 2) AS t ORDER BY ALL
;;
SELECT u.usr, t.* FROM users u LEFT JOIN LATERAL (SELECT max(v) AS top, count(*) FILTER (WHERE kind = 'buy') AS buys FROM events e WHERE e.usr = u.usr HAVING count(*) > 14) t ON true ORDER BY u.usr
;;
SELECT p.k, x.double, y.quad FROM plays p, (SELECT p.n * 2 AS double) x, LATERAL (SELECT x.double * 2 AS quad) y WHERE y.quad BETWEEN -20 AND 20 ORDER BY k
;;
SELECT g.i, t.cnt FROM generate_series(1, 5) AS g(i) CROSS JOIN LATERAL (SELECT count(*) AS cnt FROM plays WHERE n % 5 = g.i - 1) t ORDER BY i
;;
SELECT p.k, tag FROM plays p, unnest(p.tags) AS u(tag) WHERE p.k < 25 ORDER BY p.k, tag NULLS FIRST
;;
SELECT k, tag, pos FROM (SELECT k, unnest(tags) AS tag, generate_subscripts(tags, 1) AS pos FROM plays) WHERE pos = 2 AND tag IS NOT NULL ORDER BY k
;;
SELECT * FROM plays p SEMI JOIN events e ON p.usr = e.usr AND p."at" < e."at" AND e.v > 90 ORDER BY k LIMIT 30
;;
SELECT usr, name FROM users ANTI JOIN plays USING (usr) ORDER BY usr
;;
SELECT s.song FROM songs s ANTI JOIN (SELECT song FROM plays WHERE n > 25) AS hot USING (song) SEMI JOIN plays USING (song)
;;
SELECT count(*) FROM nums ANTI JOIN empty ON nums.id = empty.id
;;
SELECT u.usr FROM users u SEMI JOIN empty ON true
;;
SELECT p.k, p."at", e."at" AS seen, e.kind FROM plays p ASOF JOIN events e ON p.usr = e.usr AND p."at" >= e."at" ORDER BY p.k
;;
SELECT p.k, e.v, date_diff('minute', p."at", e."at") AS wait FROM plays p ASOF LEFT JOIN events e USING (usr, "at") ORDER BY k LIMIT 60
;;
SELECT count(*), count(e.usr), sum(e.v)::INT FROM plays AS p ASOF LEFT JOIN (FROM events WHERE kind = 'view') AS e ON e.usr = p.usr AND p."at" < e."at"
;;
SELECT i.lo, p.k FROM (VALUES (-60), (-20), (0), (33)) i(lo) ASOF JOIN (SELECT DISTINCT ON (n) n, k FROM plays WHERE n IS NOT NULL ORDER BY n, k) p ON i.lo <= p.n ORDER BY lo
;;
SELECT x.id, y.song FROM (FROM nums SELECT id ORDER BY id LIMIT 4) x POSITIONAL JOIN (SELECT song FROM songs ORDER BY song DESC LIMIT 6) y
;;
SELECT * FROM (VALUES (1, 'a'), (2, 'b')) t(i, c) POSITIONAL JOIN range(10, 13) AS r(z) POSITIONAL JOIN (SELECT id FROM empty) e
;;
SELECT usr, count(*) FROM plays NATURAL JOIN users GROUP BY usr HAVING usr LIKE 'u1%'
;;
SELECT * FROM users NATURAL JOIN (SELECT usr, max(v) AS v FROM events GROUP BY usr) AS e NATURAL LEFT JOIN (SELECT usr, count(*) AS c FROM plays GROUP BY ALL) ORDER BY usr
;;
SELECT count(*) FROM plays NATURAL JOIN events
;;
SELECT count(*) FROM nums NATURAL JOIN songs
;;
SELECT usr, count(*), min(title), max(country) FROM plays JOIN users USING (usr) JOIN songs USING (song) JOIN (SELECT DISTINCT usr FROM events WHERE v < 3) d USING (usr) GROUP BY usr
;;
SELECT usr, song, p.usr, u.usr FROM plays p FULL JOIN users u USING (usr) WHERE p.usr IS NULL OR u.usr IS NULL ORDER BY ALL
;;
SELECT usr, a.c AS plays, b.c AS events, u.country FROM (FROM plays SELECT usr, count(*) c GROUP BY usr) a FULL OUTER JOIN (FROM events SELECT usr, count(*) c GROUP BY usr) b USING (usr) FULL OUTER JOIN users u USING (usr) ORDER BY usr NULLS LAST
;;
SELECT usr FROM plays JOIN events ON plays.usr = events.usr
;;
SELECT plays.k FROM plays AS p WHERE p.k = 1
;;
SELECT a.k, b.k AS partner FROM plays a JOIN plays b ON a.usr = b.usr AND a.song = b.song AND a.k < b.k ORDER BY ALL
;;
SELECT a.usr, b.usr, c.usr FROM users a JOIN users b ON a.rank = b.rank AND a.usr < b.usr JOIN users c ON c.rank = b.rank AND b.usr < c.usr ORDER BY 1, 2, 3
;;
SELECT l.usr, r.song, l.c, r.c FROM (SELECT usr, count(*) AS c FROM plays GROUP BY usr) l FULL JOIN (SELECT song, count(*) AS c FROM plays GROUP BY song) r ON l.c = r.c + 2 ORDER BY ALL
;;
SELECT count(*), count(p.k), count(n.id) FROM plays p FULL OUTER JOIN nums n ON p.n = n.id AND p.ok AND n.b > 100
;;
SELECT e.usr, u.usr FROM empty x FULL JOIN users u ON x.t = u.usr RIGHT JOIN (SELECT DISTINCT usr FROM events) e ON e.usr = u.usr ORDER BY 1
;;
SELECT * FROM empty FULL JOIN (SELECT 1 AS one) ON id = one
;;
SELECT count(*) FROM empty CROSS JOIN plays
;;
SELECT s.genre, n.id, count(*) FROM songs s CROSS JOIN nums n WHERE n.id BETWEEN 0 AND 3 AND s.len % 4 = n.id GROUP BY 1, 2 ORDER BY genre NULLS FIRST, id
;;
SELECT u.usr, count(s.song) FROM users u LEFT JOIN songs s ON s.len BETWEEN u.rank * 30 AND u.rank * 40 + 50 GROUP BY u.usr ORDER BY u.usr
;;
SELECT p.k, n.id FROM plays p JOIN nums n ON p.k + n.id = 40 AND p.n < n.id ORDER BY k
;;
SELECT lower(u.country) AS c, count(*) FROM users u JOIN users v ON lower(u.country) = lower(v.country) AND substr(u.name, 1, 1) IS NOT DISTINCT FROM substr(v.name, 1, 1) GROUP BY c
;;
SELECT count(*) FROM plays a JOIN plays b ON a.n IS NOT DISTINCT FROM b.n
;;
SELECT a.id, b.id FROM nums a LEFT JOIN nums b ON a.id = b.id + 80 OR a.id = b.id - 88 ORDER BY 2 NULLS LAST, 1 LIMIT 20
;;
SELECT s.song, s.title FROM songs s INNER JOIN (VALUES ('T1', 1), ('T5', 2), (NULL, 3)) AS want(title, prio) ON want.title IS NOT DISTINCT FROM s.title ORDER BY prio, song
;;
SELECT p.k FROM plays p JOIN songs s ON (p.song = s.song AND s.genre = 'rock') OR (p.n = s.len - 200) ORDER BY 1
;;
SELECT p.k, u.country, s.genre FROM (plays p LEFT JOIN (users u JOIN (SELECT DISTINCT usr FROM events WHERE kind = 'buy' AND v > 60) b ON b.usr = u.usr) ON p.usr = u.usr) LEFT JOIN songs s ON s.song = p.song AND s.len > 200 WHERE p.k % 4 = 1 ORDER BY p.k
;;
SELECT s FROM songs s WHERE s.song = 's7'
;;
SELECT s.s, s.k FROM plays s WHERE s.s.x > 6 ORDER BY s.k
;;
VALUES (1, 'one', TRUE), (2, 'two', NULL), (NULL, 'none', FALSE)
;;
VALUES (3), (1), (2) ORDER BY 1 DESC LIMIT 2
;;
SELECT col0 + 1 AS x, col1 FROM (VALUES (1, 'a'), (2, 'b')) ORDER BY x DESC
;;
SELECT v.code, v.label, count(u.usr) FROM (VALUES ('DE', 'Germany'), ('TR', 'Türkiye'), ('FR', 'France'), ('XX', '?')) v(code, label) LEFT JOIN users u ON u.country = v.code GROUP BY v.code, v.label ORDER BY v.code
;;
SELECT * FROM (VALUES (1), (2.5), (NULL)) t(x) WHERE x IN (VALUES (1), (2.5))
;;
VALUES (1, 2), (3)
;;
FROM songs
;;
FROM plays SELECT count(*) AS c, usr WHERE ok GROUP BY usr HAVING c > 4 ORDER BY c DESC, usr
;;
FROM (FROM (FROM plays WHERE k < 50) SELECT k, n) AS deep(key, val) WHERE val > 0 ORDER BY key
;;
FROM plays p, users u SELECT p.k, u.name WHERE p.usr = u.usr AND u.rank = 3 ORDER BY p.k
;;
FROM users SELECT DISTINCT country ORDER BY country NULLS FIRST
;;
FROM songs ORDER BY len DESC NULLS LAST, song LIMIT 4
;;
(FROM users SELECT usr LIMIT 0) UNION ALL FROM songs SELECT song WHERE len > 350
;;
SELECT q.a, q.b, q.c2 FROM (SELECT usr, sum(n), count(*) FROM plays GROUP BY usr) AS q(a, b, c2) ORDER BY a
;;
SELECT renamed, usr FROM (SELECT k, usr FROM plays) t(renamed) ORDER BY renamed LIMIT 5
;;
SELECT * EXCLUDE (tags, s, m, raw, score) FROM plays WHERE k BETWEEN 20 AND 30 ORDER BY k
;;
SELECT * EXCLUDE (born) REPLACE (coalesce(name, '?') AS name, rank * 10 AS rank) RENAME (usr AS who) FROM users ORDER BY who
;;
SELECT p.* EXCLUDE (tags, s, m, raw, score, "at"), u.* EXCLUDE usr FROM plays p JOIN users u USING (usr) WHERE p.n > 40 ORDER BY k
;;
SELECT u.* REPLACE (upper(country) AS country) FROM users u WHERE country = 'us' ORDER BY usr
;;
SELECT min(COLUMNS('^(k|n|price|day)$')), max(COLUMNS(c -> c IN ('usr', 'song'))) FROM plays
;;
SELECT min(COLUMNS('^(k|n|price|day)$')), max(COLUMNS(lambda c: c IN ('usr', 'song'))) FROM plays
;;
SELECT count(COLUMNS(p.*)), count(DISTINCT COLUMNS(u.* EXCLUDE (name))) FROM plays p LEFT JOIN users u ON u.usr = p.usr
;;
SELECT COLUMNS(* EXCLUDE (a, l, f, tz))::INT * 2 FROM nums WHERE id BETWEEN -3 AND 3 ORDER BY id
;;
SELECT COLUMNS('(.)(.*)') AS '\2_\1' FROM songs WHERE len < 130 ORDER BY ALL
;;
SELECT id FROM nums WHERE COLUMNS(['id', 'b']) > 30 ORDER BY id
;;
SELECT coalesce(*COLUMNS('name|country')) AS first_known, usr FROM users WHERE name IS NULL OR country IS NULL ORDER BY usr
;;
SELECT struct_pack(*COLUMNS(['k', 'n'])) FROM plays ORDER BY k LIMIT 3
;;
SELECT * LIKE '%a%' FROM users ORDER BY usr LIMIT 4
;;
SELECT * EXCLUDE (nope) FROM users
;;
SELECT COLUMNS('zzz') FROM users
;;
SELECT usr, * FROM users ORDER BY rank NULLS FIRST, usr LIMIT 3
;;
SELECT s.*, k FROM plays WHERE k IN (2, 4, 6, 8) ORDER BY k
;;
SELECT unnest(s), k FROM plays WHERE s.y = 'q' ORDER BY k
;;
SELECT users FROM users WHERE rank = 1 ORDER BY usr
;;
SELECT usr, ok, sum(n) FROM plays GROUP BY ALL ORDER BY ALL
;;
SELECT n // 10 AS dec, song IS NULL AS lost, count(*) FROM plays GROUP BY 1, 2 ORDER BY 1 NULLS FIRST, 2
;;
SELECT upper(kind) AS kind, date_trunc('day', "at") AS d, count(*) AS c, round(sum(v), 1) AS s FROM events GROUP BY d, events.kind HAVING c > 9 ORDER BY d, kind
;;
SELECT CASE WHEN len < 200 THEN 'short' WHEN len < 300 THEN 'middle' ELSE 'long' END AS size, genre, count(*) c FROM songs GROUP BY CUBE (size, genre) ORDER BY ALL NULLS LAST
;;
SELECT country, rank % 2 AS odd, count(*), grouping(country) AS gc, grouping(country, odd) AS g FROM users GROUP BY GROUPING SETS ((country, odd), (country), (odd), ()) ORDER BY ALL
;;
SELECT genre, title, sum(len), grouping(genre, title) FROM songs GROUP BY ROLLUP (genre, title) HAVING grouping(title) = 1 ORDER BY genre NULLS LAST, 4
;;
SELECT ok, kind, count(*) FROM plays JOIN events USING (usr) GROUP BY ok, CUBE (kind) ORDER BY ALL
;;
SELECT usr, song, count(*) FROM plays WHERE k < 30 GROUP BY GROUPING SETS (ROLLUP (usr), CUBE (song)) ORDER BY ALL
;;
SELECT t, id % 2, count(*), sum(v) FROM empty GROUP BY CUBE (t, id % 2)
;;
SELECT count(*) FROM empty GROUP BY GROUPING SETS (())
;;
SELECT 1 AS one FROM plays HAVING count(*) > 100
;;
SELECT max(n) FROM plays HAVING min(n) > 0
;;
SELECT 'all of them' HAVING 1 = 1
;;
SELECT usr FROM plays GROUP BY usr HAVING bool_and(n IS NOT NULL) ORDER BY max(k) DESC
;;
SELECT usr, n FROM plays GROUP BY usr
;;
SELECT usr, count(*) FROM plays WHERE count(*) > 3 GROUP BY usr
;;
SELECT k, usr, n FROM plays QUALIFY row_number() OVER (PARTITION BY usr ORDER BY n DESC NULLS LAST, k) = 1 ORDER BY usr NULLS FIRST
;;
SELECT usr, count(*) AS c FROM plays GROUP BY usr HAVING c > 3 QUALIFY dense_rank() OVER (ORDER BY c DESC) <= 3 ORDER BY ALL
;;
SELECT song, len, ntile(4) OVER w AS quart FROM songs WHERE len IS NOT NULL WINDOW w AS (ORDER BY len, song) QUALIFY quart IN (1, 4) ORDER BY len, song
;;
SELECT usr, "at", v, v - lag(v) OVER w AS change FROM events WINDOW w AS (PARTITION BY usr ORDER BY "at") QUALIFY abs(change) > 85 ORDER BY usr, "at"
;;
SELECT k, sum(n) OVER (ORDER BY k ROWS BETWEEN 3 PRECEDING AND 1 FOLLOWING EXCLUDE CURRENT ROW) AS around FROM plays ORDER BY k
;;
SELECT k, n, count(*) OVER (ORDER BY n RANGE BETWEEN 5 PRECEDING AND 5 FOLLOWING EXCLUDE TIES) c, sum(k) OVER (ORDER BY n RANGE BETWEEN CURRENT ROW AND 3 FOLLOWING EXCLUDE GROUP) d FROM plays WHERE n IS NOT NULL ORDER BY k
;;
SELECT k, n, max(k) OVER (ORDER BY n NULLS FIRST GROUPS BETWEEN 2 PRECEDING AND 1 PRECEDING) mx, count(k) OVER (ORDER BY n NULLS FIRST GROUPS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW EXCLUDE NO OTHERS) run FROM plays ORDER BY k LIMIT 70
;;
SELECT usr, "at", count(*) OVER (PARTITION BY usr ORDER BY "at" RANGE BETWEEN INTERVAL 1 DAY PRECEDING AND CURRENT ROW) AS last_day, max(v) OVER (PARTITION BY usr ORDER BY "at" RANGE BETWEEN INTERVAL '6 hours' PRECEDING AND INTERVAL '6 hours' FOLLOWING EXCLUDE CURRENT ROW) AS near FROM events ORDER BY usr, "at"
;;
SELECT day, count(*) AS c, sum(count(*)) OVER (ORDER BY day RANGE BETWEEN INTERVAL 2 DAYS PRECEDING AND CURRENT ROW) AS three, count(*) * 100 // sum(count(*)) OVER () AS pct FROM plays WHERE day IS NOT NULL GROUP BY day ORDER BY day
;;
SELECT country, sum(rank) AS s, rank() OVER (ORDER BY sum(rank) DESC) AS place, first_value(country) OVER (ORDER BY sum(rank), country) AS last_one FROM users GROUP BY country ORDER BY place, country
;;
SELECT k, first_value(song IGNORE NULLS) OVER w AS f, last_value(song IGNORE NULLS) OVER w AS l, nth_value(song, 2) OVER w AS second, lead(k, 2, -1) OVER (ORDER BY k) AS nxt FROM plays WHERE k < 40 WINDOW w AS (ORDER BY k ROWS BETWEEN 2 PRECEDING AND 2 FOLLOWING) ORDER BY k
;;
SELECT k, percent_rank() OVER a, cume_dist() OVER a, row_number() OVER (a ROWS UNBOUNDED PRECEDING) FROM plays WINDOW a AS (PARTITION BY ok ORDER BY k DESC) ORDER BY k LIMIT 25
;;
SELECT usr, k, string_agg(coalesce(song, '-'), '>') OVER (PARTITION BY usr ORDER BY k) AS path FROM plays WHERE usr < 'u12' ORDER BY usr, k
;;
SELECT k, count(DISTINCT usr) OVER (ORDER BY k ROWS BETWEEN 9 PRECEDING AND CURRENT ROW) AS people, sum(n) FILTER (WHERE ok) OVER (PARTITION BY usr ORDER BY k) AS good FROM plays ORDER BY k
;;
SELECT k, sum(n) OVER (PARTITION BY usr ORDER BY k ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) prev, sum(n) OVER w2 rest FROM plays WINDOW w1 AS (PARTITION BY usr), w2 AS (w1 ORDER BY k ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING) ORDER BY k
;;
SELECT id, v, row_number() OVER (ORDER BY id), sum(v) OVER (PARTITION BY t) FROM empty QUALIFY 1 = 1
;;
SELECT id, sum(b) OVER (ORDER BY id ROWS BETWEEN (id % 3 + 3) PRECEDING AND CURRENT ROW) AS moving FROM nums ORDER BY id
;;
SELECT usr, rank() OVER (PARTITION BY country ORDER BY born) FROM users WHERE rank() OVER (ORDER BY born) < 3
;;
SELECT usr, max(gap) AS longest FROM (SELECT usr, date_diff('second', lag("at") OVER (PARTITION BY usr ORDER BY "at"), "at") AS gap FROM events) GROUP BY usr ORDER BY longest DESC, usr
;;
SELECT usr, session, count(*) AS c, min("at") AS start FROM (
  SELECT *, sum(fresh) OVER (PARTITION BY usr ORDER BY "at" ROWS UNBOUNDED PRECEDING) AS session
  FROM (SELECT usr, "at", ("at" - lag("at", 1, TIMESTAMP '1970-01-01') OVER (PARTITION BY usr ORDER BY "at") > INTERVAL 12 HOURS)::INT AS fresh FROM events)
) GROUP BY ALL HAVING c > 3 ORDER BY usr, session
;;
SELECT island, min(k), max(k), count(*) FROM (SELECT k, k - row_number() OVER (ORDER BY k) AS island FROM plays WHERE ok) GROUP BY island ORDER BY count(*) DESC, island LIMIT 10
;;
SELECT DISTINCT ON (usr) usr, k, price FROM plays ORDER BY usr NULLS LAST, price DESC NULLS LAST, k
;;
SELECT DISTINCT ON (country, rank % 2) country, rank, usr FROM users ORDER BY country, rank % 2, rank DESC, usr
;;
SELECT DISTINCT ON (d) date_trunc('day', "at") AS d, usr, kind FROM events WHERE kind IS NOT NULL ORDER BY d, "at" DESC, usr LIMIT 5
;;
SELECT DISTINCT n > 0 AS pos, ok, song IN ('s1', 's2') FROM plays
;;
SELECT DISTINCT k % 7 AS md FROM plays ORDER BY -md
;;
SELECT count(DISTINCT tags), count(DISTINCT s), count(DISTINCT s.x), sum(DISTINCT n) FILTER (WHERE n > 0), string_agg(DISTINCT song, '' ORDER BY song) FROM plays
;;
SELECT genre, list(DISTINCT title ORDER BY title DESC NULLS LAST) FROM songs GROUP BY genre ORDER BY ALL DESC NULLS LAST
;;
SELECT usr, n, k FROM plays WHERE n BETWEEN -5 AND 5 ORDER BY abs(n), 2 DESC, k
;;
SELECT name, rank, usr FROM users ORDER BY ALL DESC NULLS LAST
;;
SELECT k AS n, n AS k FROM plays ORDER BY n LIMIT 5
;;
SELECT k, -k AS neg FROM plays ORDER BY 3
;;
SELECT usr FROM users ORDER BY country COLLATE NOCASE, usr DESC
;;
SELECT k FROM plays ORDER BY k LIMIT (SELECT max(rank) FROM users) OFFSET (SELECT count(*) FROM songs) / 5
;;
SELECT k FROM plays ORDER BY k DESC LIMIT 2 + 3 OFFSET 10 * 2
;;
SELECT k FROM plays ORDER BY k LIMIT 10%
;;
SELECT id FROM nums ORDER BY abs(id), id LIMIT 7.5 PERCENT OFFSET 2
;;
SELECT k FROM plays ORDER BY k LIMIT (SELECT count(*) FROM empty)
;;
SELECT k FROM plays ORDER BY k LIMIT (SELECT max(id) FROM empty)
;;
SELECT k FROM plays ORDER BY k LIMIT -1
;;
FROM plays SELECT k, n ORDER BY n NULLS FIRST, k DESC OFFSET (SELECT count(*) - 8 FROM plays)
;;
PIVOT events ON kind USING count(*) GROUP BY usr ORDER BY usr
;;
PIVOT (SELECT usr, kind, v FROM events) ON kind IN ('buy', 'view') USING count(*) AS c, max(v) AS top GROUP BY usr ORDER BY usr LIMIT 8
;;
FROM (PIVOT songs ON genre USING sum(len) GROUP BY title) ORDER BY title NULLS FIRST
;;
SELECT * FROM (SELECT country, rank FROM users) PIVOT (count(*) FOR country IN ('DE', 'TR' AS tr, 'FR')) ORDER BY rank
;;
PIVOT (SELECT ok, n, day FROM plays) ON ok USING sum(n) GROUP BY day ORDER BY day
;;
WITH p AS (PIVOT users ON country USING count(*) GROUP BY rank) SELECT * FROM p ORDER BY rank
;;
UNPIVOT (SELECT usr, name, country FROM users) ON name, country INTO NAME what VALUE val ORDER BY usr, what
;;
SELECT usr, field, amount FROM (SELECT usr, count(*) AS c, count(n) AS n, count(song) AS s FROM plays GROUP BY usr) UNPIVOT INCLUDE NULLS (amount FOR field IN (c, n, s)) ORDER BY 1, 2
;;
UNPIVOT (SELECT id, a, b::BIGINT AS b FROM nums WHERE id BETWEEN 0 AND 5) ON COLUMNS(* EXCLUDE id) ORDER BY ALL
;;
PIVOT empty ON t IN ('a', 'b') USING sum(v) GROUP BY id
;;
SELECT n * 2 AS twice, twice + 1 AS more, more * more AS sq, k FROM plays WHERE twice > 60 AND more < 90 ORDER BY k
;;
SELECT k AS x, x % 3 AS y, count(*) OVER (PARTITION BY y) AS z FROM plays WHERE y = 1 AND x > 100 ORDER BY x
;;
SELECT sum(n) AS total, count(n) AS c, total / c AS mean FROM plays
;;
SELECT usr, sum(n) AS t FROM plays WHERE t > 3 GROUP BY usr
;;
SELECT later + 1 AS x, n AS later FROM plays
;;
SELECT r.range AS i, count(p.k) FROM range(0, 20, 5) r LEFT JOIN plays p ON p.n >= r.range AND p.n < r.range + 5 GROUP BY i ORDER BY i
;;
SELECT h, count(v) FROM generate_series(TIMESTAMP '2024-05-02', TIMESTAMP '2024-05-03', INTERVAL 3 HOURS) AS g(h) LEFT JOIN events ON time_bucket(INTERVAL 3 HOURS, events."at") = h GROUP BY h ORDER BY h
;;
SELECT unnest([1, 2, 3]) AS a, unnest(['x', 'y']) AS b, 'const' AS c
;;
SELECT u.x, s.title FROM unnest(['s3', 's9', 's99', NULL]) WITH ORDINALITY AS u(x, o) LEFT JOIN songs s ON s.song = u.x ORDER BY o
;;
SELECT u.x, s.title FROM unnest(['s3', 's9', 's99', NULL]) AS u(x) LEFT JOIN songs s ON s.song = u.x ORDER BY x
;;
SELECT k, entry.key, entry.value FROM (SELECT k, unnest(map_entries(m)) AS entry FROM plays WHERE k < 50) WHERE entry.value >= 5 ORDER BY ALL
;;
SELECT tag, count(*), count(DISTINCT k) FROM (SELECT k, unnest(tags) AS tag FROM plays) GROUP BY tag ORDER BY 2 DESC, 1 NULLS LAST
;;
SELECT count(*) FROM range(1000) t(i) WHERE i NOT IN (SELECT k FROM plays) AND i IN (SELECT len FROM songs)
;;
SELECT 1 + 1, 'a' || NULL, [1, 2][1], {'x': 1}.x, CAST('2024-02-29' AS DATE) + 1
;;
SELECT 1 WHERE false
;;
SELECT count(*), sum(1)
;;
select/**/"usr"/* a ; comment ;; with -- marks */,"name"--trailing
from/*here*/"users"-- and; here
where"rank">=7 order/* */by 1
;;
SeLeCt UsR, COUNT(*) As "N of Plays" fRoM PLAYS WhErE Ok GrOuP bY USR oRdEr By "n OF plays" desc, uSr
;;
SELECT "Usr" AS "Group", "RANK" "order", users."Name" AS "quo""ted" FROM "USERS" users ORDER BY "Group" LIMIT 6
;;
SELECT main.plays.k, main.plays.usr FROM main.plays WHERE main.plays.n = 7 ORDER BY main.plays.k
;;
SELECT "main"."Users"."USR" FROM "MAIN".users ORDER BY 1 LIMIT 2
;;
SELECT other.plays.k FROM other.plays
;;
SELECT "order"."select" FROM (SELECT usr AS "select", rank AS "from" FROM users) AS "order" WHERE "order"."from" = 4 ORDER BY 1
;;
SELECT E'it\'s' AS a, 'it''s' AS b, $$dollar ' quoted$$ AS c, $tag$ with $$ in it $tag$ AS d, usr FROM users WHERE usr = $$u4$$
;;
SELECT 1_000 + 31 AS n, .5 AS half, 1e3 AS k, -k AS minus, 5.0 AS five, 'tab	in' AS t
;;
/* leading */ -- comments
  /* nested? no */

SELECT/* inside */count ( * )
	,	max
(k)
FROM

plays -- the end
;;
SELECT k FROM plays WHERE k < 3 ORDER BY k -- no newline after this
;;
SELECT usr FROM users WHERE usr = 'u1' /* never closed
;;
SELECT x.usr FROM users x JOIN events x ON x.usr = x.usr
;;
SELECT p.k, p.usr FROM plays AS p (key, person) ORDER BY key LIMIT 2
;;
SELECT key, person, song FROM plays AS p (key, person) WHERE person = 'u2' ORDER BY key
;;
SELECT t.c FROM plays, (SELECT count(*) AS c FROM events WHERE events.usr = plays.usr) AS t WHERE plays.k < 12 ORDER BY plays.k
;;
SELECT u.usr, (SELECT sum(x.c) FROM (SELECT count(*) AS c FROM plays p WHERE p.usr = u.usr UNION ALL SELECT count(*) FROM events e WHERE e.usr = u.usr) x) AS activity FROM users u ORDER BY activity DESC, u.usr
;;
SELECT usr FROM users u WHERE EXISTS (SELECT 1 FROM plays p WHERE p.usr = u.usr AND NOT EXISTS (SELECT 1 FROM songs s WHERE s.song = p.song AND s.len > 150 AND EXISTS (SELECT 1 FROM events e WHERE e.usr = u.usr AND e.v < s.len - 200))) ORDER BY usr
;;
SELECT kind, (SELECT count(*) FROM plays WHERE n > avg(e.v)) AS above FROM events e GROUP BY kind ORDER BY kind NULLS FIRST
;;
SELECT id FROM empty WHERE id IN (SELECT k FROM plays) UNION ALL SELECT (SELECT id FROM empty) UNION ALL SELECT max(id) FROM empty
;;
SELECT u.usr, e.* FROM users u LEFT JOIN empty e ON e.t = u.usr WHERE u.rank = 2 ORDER BY u.usr
;;
SELECT p.k, lag(p.k) OVER (ORDER BY p.k) AS before, (SELECT count(*) FROM nums WHERE nums.id = p.n) AS hits, p.n IN (SELECT id FROM nums WHERE b < 128) AS low FROM plays p WHERE p.song = 's5' ORDER BY ALL
;;
WITH RECURSIVE best(g, top) USING KEY (g) AS (
  SELECT id % 3, id FROM nums WHERE id BETWEEN 0 AND 2
  UNION
  SELECT g, top + 3 FROM best WHERE top < 20
) SELECT g, top FROM best ORDER BY g
;;
SELECT usr, row_number() OVER (ORDER BY (SELECT count(*) FROM plays p WHERE p.usr = u.usr) DESC, usr) AS place FROM users u ORDER BY place
;;
SELECT u.usr, p.k FROM users u LEFT JOIN plays p ON p.usr = u.usr AND EXISTS (SELECT 1 FROM songs g WHERE g.song = p.song AND g.genre = 'jazz') ORDER BY ALL
;;
SELECT k FROM plays WHERE song IN ((SELECT song FROM songs WHERE genre = 'pop' UNION SELECT song FROM songs WHERE len < 150) EXCEPT SELECT song FROM plays WHERE n > 45) AND EXISTS (SELECT usr FROM users WHERE usr = plays.usr INTERSECT SELECT usr FROM events WHERE kind = 'buy') ORDER BY k
;;
SELECT a.usr, b.usr AS twin, (a.n, a.song) AS pair FROM (FROM plays SELECT usr, n, song WHERE n % 2 = 0) a JOIN plays AS b USING (n, song) WHERE a.usr <> b.usr ORDER BY n, twin, 1
;;
SELECT k FROM plays WHERE (SELECT ok FROM plays WHERE k < 3) IN (TRUE, FALSE)
;;
SELECT k FROM plays WHERE 1 IN ((SELECT 1 FROM plays WHERE k < 3), 7)
;;
SELECT k FROM plays WHERE (SELECT usr FROM plays WHERE k = 1) IN (SELECT usr FROM users)
;;
SELECT k FROM plays WHERE n IN ((SELECT n FROM plays WHERE k = 1), (SELECT n FROM plays WHERE k = 2))
;;
SELECT arg_max(DISTINCT usr, n) IS NOT NULL FROM plays
;;
SELECT bool_or(DISTINCT ok) FROM plays
;;
SELECT usr, arg_min(DISTINCT k, n) FROM plays WHERE n > 45 GROUP BY usr
;;
SELECT k, bool_and(DISTINCT ok) OVER (PARTITION BY day) FROM plays
;;
SELECT bool_or(DISTINCT ok) FILTER (WHERE n > 0), bool_and(DISTINCT ok ORDER BY ok) FROM plays
;;
SELECT ok, max_by(DISTINCT usr, k) FROM plays GROUP BY ROLLUP (ok)
;;
SELECT count(DISTINCT ok), bool_or(ALL ok), arg_max(ALL usr, k) FROM plays
;;
SELECT k, bool_or(ok ORDER BY k) OVER (PARTITION BY day) FROM plays
;;
SELECT bool_and(ok ORDER BY k) FILTER (WHERE k > 5) FROM plays
;;
SELECT ok, sum(n ORDER BY k) FROM plays GROUP BY ok
;;
SELECT ok, avg(n ORDER BY k) FROM plays GROUP BY ok
;;
SELECT ok, count(n ORDER BY k) FROM plays GROUP BY ok
;;
SELECT ok, min(n ORDER BY k) FROM plays GROUP BY ok
;;
SELECT ok, max(n ORDER BY k) FROM plays GROUP BY ok
;;
SELECT ok, list(n ORDER BY k) FROM plays GROUP BY ok
;;
SELECT ok, array_agg(n ORDER BY k) FROM plays GROUP BY ok
;;
SELECT ok, string_agg(usr ORDER BY k) FROM plays GROUP BY ok
;;
SELECT ok, any_value(n ORDER BY k) FROM plays GROUP BY ok
;;
SELECT ok, first(n ORDER BY k) FROM plays GROUP BY ok
;;
SELECT ok, last(n ORDER BY k) FROM plays GROUP BY ok
;;
SELECT ok, mode(n ORDER BY k) FROM plays GROUP BY ok
;;
SELECT ok, median(n ORDER BY k) FROM plays GROUP BY ok
;;
SELECT ok, mad(n ORDER BY k) FROM plays GROUP BY ok
;;
SELECT ok, histogram(n ORDER BY k) FROM plays GROUP BY ok
;;
SELECT ok, bit_and(n ORDER BY k) FROM plays GROUP BY ok
;;
SELECT ok, bit_or(n ORDER BY k) FROM plays GROUP BY ok
;;
SELECT ok, bit_xor(n ORDER BY k) FROM plays GROUP BY ok
;;
SELECT ok, bool_and(ok ORDER BY k) FROM plays GROUP BY ok
;;
SELECT ok, bool_or(ok ORDER BY k) FROM plays GROUP BY ok
;;
SELECT ok, count_if(ok ORDER BY k) FROM plays GROUP BY ok
;;
SELECT ok, countif(ok ORDER BY k) FROM plays GROUP BY ok
;;
SELECT ok, product(n ORDER BY k) FROM plays GROUP BY ok
;;
SELECT ok, entropy(n ORDER BY k) FROM plays GROUP BY ok
;;
SELECT ok, kurtosis(n ORDER BY k) FROM plays GROUP BY ok
;;
SELECT ok, kurtosis_pop(n ORDER BY k) FROM plays GROUP BY ok
;;
SELECT ok, skewness(n ORDER BY k) FROM plays GROUP BY ok
;;
SELECT ok, stddev(n ORDER BY k) FROM plays GROUP BY ok
;;
SELECT ok, stddev_pop(n ORDER BY k) FROM plays GROUP BY ok
;;
SELECT ok, stddev_samp(n ORDER BY k) FROM plays GROUP BY ok
;;
SELECT ok, var_pop(n ORDER BY k) FROM plays GROUP BY ok
;;
SELECT ok, var_samp(n ORDER BY k) FROM plays GROUP BY ok
;;
SELECT ok, variance(n ORDER BY k) FROM plays GROUP BY ok
;;
SELECT ok, sem(n ORDER BY k) FROM plays GROUP BY ok
;;
SELECT ok, favg(n ORDER BY k) FROM plays GROUP BY ok
;;
SELECT ok, fsum(n ORDER BY k) FROM plays GROUP BY ok
;;
SELECT ok, kahan_sum(n ORDER BY k) FROM plays GROUP BY ok
;;
SELECT ok, mean(n ORDER BY k) FROM plays GROUP BY ok
;;
SELECT ok, approx_count_distinct(n ORDER BY k) FROM plays GROUP BY ok
;;
SELECT ok, arg_max(usr, n ORDER BY k) FROM plays GROUP BY ok
;;
SELECT ok, max_by(usr, k ORDER BY k) FROM plays GROUP BY ok
;;
SELECT ok, arg_min_null(usr, n ORDER BY k) FROM plays GROUP BY ok
;;
SELECT ok, corr(n, k ORDER BY k) FROM plays GROUP BY ok
;;
SELECT ok, covar_pop(n, k ORDER BY k) FROM plays GROUP BY ok
;;
SELECT ok, regr_slope(n, k ORDER BY k) FROM plays GROUP BY ok
;;
SELECT ok, quantile_cont(n, 0.5 ORDER BY n) FROM plays GROUP BY ok
;;
SELECT ok, max(n, 2 ORDER BY k) FROM plays GROUP BY ok
;;
SELECT ok, bitstring_agg(k, 0, 199 ORDER BY k)::VARCHAR FROM plays GROUP BY ok
;;
SELECT ok, histogram(n, [0, 10] ORDER BY n) FROM plays GROUP BY ok
;;
SELECT ok, approx_quantile(n, 0.5 ORDER BY k) IS NOT NULL FROM plays GROUP BY ok
;;
SELECT k FROM plays ORDER BY k LIMIT ALL OFFSET 195
;;
SELECT DISTINCT usr FROM plays ORDER BY usr LIMIT ALL OFFSET 15
;;
SELECT count(*) FROM (SELECT k FROM plays ORDER BY k LIMIT ALL OFFSET 100)
;;
SUMMARIZE TABLE users
