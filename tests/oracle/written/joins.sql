SELECT p.k, u.name FROM plays p JOIN users u ON p.usr = u.usr WHERE p.k % 7 = 3
;;
SELECT u.usr, count(p.k), sum(p.n) FROM users u LEFT JOIN plays p ON p.usr = u.usr GROUP BY u.usr
;;
SELECT u.usr, count(*), count(p.k) FROM users u LEFT JOIN plays p ON p.usr = u.usr AND p.n > 10 GROUP BY u.usr HAVING count(p.k) < 4
;;
SELECT u.usr, count(*) FROM users u LEFT JOIN plays p ON p.usr = u.usr WHERE p.n > 10 GROUP BY u.usr
;;
SELECT u.usr, p.k FROM users u LEFT JOIN plays p ON p.usr = u.usr AND u.rank > 3 WHERE p.k IS NULL OR p.k < 20
;;
SELECT u.usr FROM users u LEFT JOIN plays p USING (usr) WHERE p.k IS NULL
;;
SELECT p.k, p.usr, u.usr FROM users u RIGHT JOIN plays p ON u.usr = p.usr AND u.country IS NOT NULL WHERE p.k BETWEEN 10 AND 60
;;
SELECT usr, count(*), count(k), count(name) FROM plays FULL JOIN users USING (usr) GROUP BY usr
;;
SELECT usr, p.usr, u.usr FROM (SELECT * FROM plays WHERE k < 15) p FULL OUTER JOIN (SELECT * FROM users WHERE usr >= 'u15') u USING (usr)
;;
SELECT coalesce(p.usr, u.usr, e.usr) AS who, count(*) FROM (SELECT usr FROM plays WHERE k < 40) p FULL JOIN (SELECT usr FROM users WHERE rank < 10) u ON p.usr = u.usr FULL JOIN (SELECT DISTINCT usr FROM events WHERE kind IS NOT NULL) e ON e.usr = coalesce(p.usr, u.usr) GROUP BY 1
;;
SELECT usr, count(*) AS c, count(DISTINCT kind) AS kinds, count(DISTINCT k) AS ks FROM plays FULL JOIN users USING (usr) FULL JOIN events USING (usr) GROUP BY ALL
;;
SELECT count(*), count(p.k), count(u.usr) FROM plays p FULL JOIN users u ON p.usr = u.usr AND p.k < 50 AND u.usr > 'u10'
;;
SELECT count(*), count(p.k), count(n.id) FROM plays p FULL JOIN nums n ON p.k = n.id
;;
SELECT p.k, n.id FROM plays p FULL JOIN nums n ON p.k = n.id WHERE coalesce(p.k, n.id) BETWEEN -3 AND 3 OR coalesce(p.k, n.id) > 197
;;
SELECT k, id FROM plays FULL JOIN nums ON k = -id WHERE id IS NULL AND k < 60
;;
SELECT p.k, n.id, n.a FROM plays p JOIN nums n ON p.k + 1 = n.id * 2
;;
SELECT p.k, n.id FROM plays p LEFT JOIN nums n ON n.id = p.k - 190 WHERE p.k >= 180
;;
SELECT count(*), sum(p.k), sum(n.id) FROM plays p JOIN nums n ON p.k % 10 = n.id
;;
SELECT n1.id, n2.id FROM nums n1 JOIN nums n2 ON n1.id = -n2.id WHERE n1.id > 30
;;
SELECT a.k, b.k FROM plays a JOIN plays b ON a.k = b.k + 100 AND a.usr IS NOT DISTINCT FROM b.usr
;;
SELECT count(*) FROM plays a JOIN plays b USING (k)
;;
SELECT a.k, a.n, b.n FROM plays a LEFT JOIN plays b ON b.k = a.k AND b.n < 0 WHERE a.k % 9 = 0
;;
SELECT count(*), count(a.usr), sum(a.k - b.k) FROM plays a JOIN plays b ON a.usr IS NOT DISTINCT FROM b.usr
;;
SELECT count(*), sum(a.k) FROM plays a JOIN plays b ON a.usr = b.usr AND a.song IS NOT DISTINCT FROM b.song AND a.k < b.k
;;
SELECT a.k, min(b.k) FROM plays a LEFT JOIN plays b ON a.usr = b.usr AND b.k > a.k GROUP BY a.k
;;
SELECT count(*) FROM plays p JOIN users u ON p.usr = u.usr OR p.n = u.rank
;;
SELECT p.k, u.usr FROM plays p LEFT JOIN users u ON (p.usr = u.usr AND u.rank > 5) OR (p.k = u.rank) WHERE p.k < 25
;;
SELECT u.usr, count(e.kind) FROM users u LEFT JOIN events e ON u.usr = e.usr OR u.usr = 'u' || (substr(e.usr, 2)::INTEGER + 1)::VARCHAR GROUP BY u.usr
;;
SELECT count(*), sum(p.k) FROM plays p JOIN nums n ON p.k < n.id
;;
SELECT n.id, count(p.k) FROM nums n LEFT JOIN plays p ON p.k <= n.id AND p.k > n.id - 3 GROUP BY n.id
;;
SELECT n.id, count(p.k), max(p.k) FROM plays p RIGHT JOIN nums n ON p.n BETWEEN n.id AND n.id + 2 GROUP BY n.id HAVING count(p.k) <> 3
;;
SELECT p.k, u.usr FROM plays p JOIN users u ON p.usr <> u.usr AND p.k = u.rank * 10
;;
SELECT p.k FROM plays p SEMI JOIN users u ON p.usr = u.usr AND u.rank < p.k
;;
SELECT k, usr FROM plays SEMI JOIN events USING (usr, "at")
;;
SELECT count(*), count(usr) FROM plays ANTI JOIN users USING (usr)
;;
SELECT usr FROM users ANTI JOIN plays USING (usr)
;;
SELECT u.usr FROM users u ANTI JOIN (SELECT * FROM plays WHERE n > 20) p ON u.usr = p.usr
;;
SELECT u.usr FROM users u SEMI JOIN plays p ON p.usr > u.usr AND p.k = 5
;;
SELECT count(*) FROM plays ANTI JOIN empty ON k = id
;;
SELECT count(*) FROM plays SEMI JOIN empty ON k = id
;;
SELECT song, title FROM songs ANTI JOIN plays USING (song)
;;
SELECT song, count(*) FROM songs SEMI JOIN plays USING (song) GROUP BY song
;;
SELECT p.k, e."at", e.kind FROM plays p ASOF JOIN events e ON p.usr = e.usr AND p."at" >= e."at" WHERE p.k < 80
;;
SELECT p.k, e."at", e.kind FROM plays p ASOF LEFT JOIN events e ON p.usr = e.usr AND p."at" >= e."at"
;;
SELECT p.k, e."at" FROM plays p ASOF JOIN events e ON p.usr = e.usr AND p."at" < e."at"
;;
SELECT p.k, e."at" FROM plays p ASOF LEFT JOIN events e ON p.usr = e.usr AND p."at" > e."at" WHERE e."at" IS NULL
;;
SELECT p.k, e."at", e.kind FROM plays p ASOF LEFT JOIN events e ON e.usr = p.usr AND e."at" >= p."at" WHERE p.usr BETWEEN 'u1' AND 'u19'
;;
SELECT p.k, max(e."at") FROM plays p ASOF JOIN events e ON p."at" >= e."at" GROUP BY p.k
;;
SELECT k, usr, "at", kind FROM plays ASOF JOIN events USING (usr, "at") WHERE k % 2 = 1
;;
SELECT k, usr, kind FROM plays ASOF LEFT JOIN (SELECT * FROM events WHERE kind IS NOT NULL AND v > 0) ev USING (usr, "at")
;;
SELECT p.usr, count(*), count(e.kind), min(e."at") FROM plays p ASOF LEFT JOIN events e ON p.usr = e.usr AND p."at" <= e."at" GROUP BY p.usr
;;
SELECT a.usr, a."at", b."at" FROM events a ASOF LEFT JOIN events b ON a.usr = b.usr AND a."at" > b."at" WHERE a.usr IN ('u1', 'u11', 'u19')
;;
SELECT a.usr, max(a."at" - b."at") FROM events a ASOF JOIN events b ON a.usr = b.usr AND a."at" > b."at" GROUP BY a.usr
;;
SELECT p.k, n.id FROM plays p ASOF JOIN nums n ON p.n >= n.id
;;
SELECT p.k, n.id FROM plays p ASOF LEFT JOIN (SELECT id FROM nums WHERE id % 5 = 0) n ON p.k <= n.id
;;
SELECT e.usr, e."at", p.k FROM events e ASOF LEFT JOIN (SELECT usr, "at", max(k) AS k FROM plays GROUP BY usr, "at") p ON e.usr = p.usr AND e."at" >= p."at"
;;
SELECT e.usr, e."at", u.name FROM events e ASOF JOIN (SELECT usr, name, TIMESTAMP '2024-05-03' AS since FROM users) u ON e.usr = u.usr AND e."at" >= u.since
;;
SELECT p.k, d.d FROM plays p ASOF JOIN (VALUES (DATE '2024-05-01'), (DATE '2024-05-04'), (DATE '2024-05-08')) d(d) ON p.day >= d.d
;;
SELECT k, usr FROM (SELECT k FROM plays ORDER BY k LIMIT 8) a POSITIONAL JOIN (SELECT usr FROM users ORDER BY usr DESC LIMIT 11) b
;;
SELECT a.x, b.y FROM (VALUES (1), (2), (3)) a(x) POSITIONAL JOIN (SELECT id AS y FROM nums WHERE id > 0 ORDER BY id LIMIT 2) b
;;
SELECT count(*), sum(u.rank) FROM users u CROSS JOIN songs s
;;
SELECT u.usr, s.song FROM users u CROSS JOIN songs s WHERE u.usr = 'u' || substr(s.song, 2) AND s.len > 0
;;
SELECT count(*), sum(n1.id * n2.id) FROM nums n1, nums n2
;;
SELECT count(*) FROM plays, empty
;;
SELECT count(*), count(id) FROM plays LEFT JOIN empty ON true
;;
SELECT k, id, t FROM plays LEFT JOIN empty ON k = id WHERE k < 4
;;
SELECT k, e.v FROM empty e RIGHT JOIN plays p ON e.id = p.k AND p.n > 0 WHERE k > 190
;;
SELECT count(*), sum(k), max(id) FROM plays FULL JOIN empty ON k = id AND t = usr
;;
SELECT max(v), count(*), sum(id), min(t) FROM empty JOIN plays ON id = k
;;
SELECT t, count(*) FROM empty LEFT JOIN plays ON id = k GROUP BY t
;;
SELECT count(*), sum(len) FROM plays NATURAL JOIN songs
;;
SELECT usr, name, kind, v FROM users NATURAL JOIN events WHERE "at" < TIMESTAMP '2024-05-03'
;;
SELECT k, usr, "at", kind FROM plays NATURAL JOIN events
;;
SELECT k, usr, kind FROM plays NATURAL LEFT JOIN events WHERE k < 30
;;
SELECT usr, count(*) FROM plays NATURAL FULL JOIN users GROUP BY usr HAVING count(*) > 1
;;
SELECT * FROM songs NATURAL LEFT JOIN (SELECT song, count(*) AS c, min(k) AS mk FROM plays GROUP BY song) q
;;
SELECT * FROM users JOIN (SELECT usr, count(*) c FROM events GROUP BY usr) USING (usr) WHERE c > 10
;;
SELECT u.country, s.genre, count(*), sum(p.n), sum(p.price) FROM plays p JOIN users u USING (usr) JOIN songs s USING (song) GROUP BY u.country, s.genre
;;
SELECT u.country, s.genre, e.kind, count(*), count(DISTINCT p.k) FROM plays p JOIN users u ON u.usr = p.usr JOIN songs s ON s.song = p.song JOIN events e ON e.usr = u.usr AND e."at"::DATE = p.day GROUP BY ALL
;;
SELECT p.k, u.name, s.title, n.a, x.t FROM plays p LEFT JOIN users u ON u.usr = p.usr LEFT JOIN songs s ON s.song = p.song LEFT JOIN nums n ON n.id = p.n LEFT JOIN empty x ON x.id = p.k WHERE p.k % 11 = 0
;;
SELECT s.genre, count(*) AS c, count(DISTINCT u.country) FROM songs s LEFT JOIN (plays p JOIN users u ON p.usr = u.usr AND u.rank > 2) ON p.song = s.song GROUP BY s.genre
;;
SELECT u.usr, p.k, s.title FROM users u LEFT JOIN (plays p INNER JOIN songs s ON p.song = s.song AND s.len > 200) ON p.usr = u.usr AND p.k < 100
;;
SELECT u.usr, p.k, s.title FROM users u LEFT JOIN plays p ON p.usr = u.usr AND p.k < 100 INNER JOIN songs s ON p.song = s.song AND s.len > 200
;;
SELECT n.id, p.k, e.kind FROM nums n LEFT JOIN (plays p LEFT JOIN events e ON e.usr = p.usr AND e."at" = p."at") ON p.k = n.id WHERE e.kind IS NULL AND n.id BETWEEN -2 AND 20
;;
SELECT count(*), count(n.id), count(p.k), count(u.usr) FROM (nums n FULL JOIN plays p ON n.id = p.n) LEFT JOIN (users u RIGHT JOIN songs s ON u.rank = s.len % 20) ON p.song = s.song
;;
SELECT p.k, u.usr, u2.usr FROM plays p LEFT JOIN users u ON p.usr = u.usr LEFT JOIN users u2 ON u2.rank = u.rank AND u2.usr > u.usr WHERE p.k BETWEEN 20 AND 40
;;
SELECT p.k, n.id FROM plays p LEFT JOIN nums n ON p.n = n.id AND p.k = 17 WHERE p.k IN (16, 17, 18)
;;
SELECT count(*), count(n.id) FROM plays p LEFT JOIN nums n ON p.k = n.id AND p.ok
;;
SELECT count(*), count(n.id) FROM plays p LEFT JOIN nums n ON p.k = n.id AND NULL
;;
SELECT count(*), count(n.id) FROM plays p LEFT JOIN nums n ON 1 = 0
;;
SELECT count(*), count(p.k), count(n.id) FROM plays p FULL JOIN nums n ON false
;;
SELECT p.k, e.kind FROM plays p JOIN events e ON p.k = e.v
;;
SELECT p.k, e.usr, e."at" FROM plays p JOIN events e ON p.k = floor(e.v) AND p.usr = e.usr
;;
SELECT p.k, n.id FROM plays p JOIN nums n ON p.k::DOUBLE = n.id::DOUBLE + 0.5
;;
SELECT p.k, n.id FROM plays p LEFT JOIN nums n ON p.k = n.id / 2 WHERE p.k < 30
;;
SELECT p.k, n.id FROM plays p LEFT JOIN nums n ON p.k = n.id // 2 WHERE p.k < 30
;;
SELECT p.k, u.usr, u.rank FROM plays p JOIN users u ON p.k = u.rank
;;
SELECT u.usr, count(n.id) FROM users u LEFT JOIN nums n ON n.id = u.rank AND n.b IS NOT NULL GROUP BY u.usr
;;
SELECT p.k, n.id FROM plays p JOIN nums n ON p.price = n.a
;;
SELECT p.k, n.id FROM plays p JOIN nums n ON p.price::BIGINT = n.id AND p.k > n.id
;;
SELECT p.k, n.id FROM plays p JOIN nums n ON p.k::VARCHAR = n.id::VARCHAR
;;
SELECT p.k, n.id FROM plays p LEFT JOIN nums n ON try_cast(substr(p.usr, 2) AS INTEGER) = n.id WHERE p.k % 13 = 1
;;
SELECT u.usr, p.k FROM users u JOIN plays p ON u.usr = 'u' || p.k
;;
SELECT u.usr, p.k FROM users u LEFT JOIN plays p ON u.usr = concat('u', p.k + 5)
;;
SELECT p.usr, n.id FROM plays p JOIN nums n ON p.usr = n.id
;;
SELECT n.id, p.k FROM nums n JOIN plays p ON n.b = p.k
;;
SELECT count(*) FROM nums n JOIN plays p ON n.f = p.n
;;
SELECT p.k, e.usr, e."at" FROM plays p JOIN events e ON p.day = e."at" AND p.k < 100
;;
SELECT p.day, count(*), count(DISTINCT e.usr) FROM plays p JOIN events e ON p.day = date_trunc('day', e."at") GROUP BY p.day
;;
SELECT u.usr, x.k, x.n FROM users u, LATERAL (SELECT k, n FROM plays p WHERE p.usr = u.usr ORDER BY k DESC LIMIT 2) x
;;
SELECT u.usr, x.c, x.m FROM users u LEFT JOIN LATERAL (SELECT count(*) AS c, max(v) AS m FROM events e WHERE e.usr = u.usr AND e."at" > TIMESTAMP '2024-05-05') x ON true
;;
SELECT u.usr, x.k FROM users u LEFT JOIN LATERAL (SELECT k FROM plays p WHERE p.usr = u.usr AND p.n > u.rank ORDER BY k LIMIT 1) x ON true
;;
SELECT n.id, x.g, y.s FROM nums n, LATERAL (SELECT n.id * 2 AS g) x, LATERAL (SELECT sum(k) AS s FROM plays WHERE k BETWEEN n.id AND x.g) y WHERE n.id % 6 = 0
;;
SELECT s.song, t.usr, t.c FROM songs s JOIN LATERAL (SELECT usr, count(*) AS c FROM plays p WHERE p.song = s.song GROUP BY usr) t ON t.c > 1
;;
SELECT p.k, l.kind, l."at" FROM plays p CROSS JOIN LATERAL (SELECT kind, "at" FROM events e WHERE e.usr = p.usr AND e."at" <= p."at" ORDER BY e."at" DESC LIMIT 1) l WHERE p.k < 70
;;
SELECT a.country, count(*) FROM users a JOIN users b ON a.country = b.country AND a.usr < b.usr GROUP BY a.country
;;
SELECT a.usr, b.usr FROM users a LEFT JOIN users b ON a.born < b.born AND a.country = b.country AND a.rank = b.rank
;;
SELECT e1.usr, count(*), sum(e2."at" - e1."at" < INTERVAL 1 DAY) FROM events e1 JOIN events e2 ON e1.usr = e2.usr AND e2."at" > e1."at" GROUP BY e1.usr
;;
SELECT count(*) FROM plays p JOIN users u USING (usr) JOIN plays q USING (usr) WHERE p.k <> q.k AND u.rank IS NOT NULL
;;
SELECT usr, p.song, q.song FROM plays p LEFT JOIN plays q USING (usr, k) WHERE p.k > 185
;;
SELECT s.song, s.genre, p.k FROM songs s LEFT JOIN plays p ON p.song = s.song AND p.usr = 'u3'
;;
SELECT s.song, count(p.k) FROM plays p RIGHT JOIN songs s ON p.song = s.song AND p.k >= 100 GROUP BY s.song ORDER BY s.song LIMIT 7 OFFSET 3
;;
SELECT count(*), count(s.song), count(p.k) FROM songs s FULL JOIN plays p ON s.song = p.song AND s.genre IS NOT NULL
;;
SELECT s1.song, s2.song FROM songs s1 JOIN songs s2 ON s1.genre = s2.genre AND s1.len < s2.len WHERE EXISTS (FROM plays p WHERE p.song = s1.song AND p.k < 10)
;;
SELECT u.usr FROM users u WHERE EXISTS (SELECT 1 FROM plays p WHERE p.usr = u.usr AND p.n > 30)
;;
SELECT u.usr FROM users u WHERE NOT EXISTS (SELECT 1 FROM plays p WHERE p.usr = u.usr AND p.n > 30)
;;
SELECT u.usr FROM users u WHERE EXISTS (SELECT max(k) FROM plays p WHERE p.usr = u.usr AND p.k > 1000)
;;
SELECT u.usr FROM users u WHERE EXISTS (SELECT sum(n) FROM plays p WHERE p.usr = u.usr HAVING sum(n) > 0)
;;
SELECT u.usr FROM users u WHERE NOT EXISTS (FROM events e WHERE e.usr = u.usr AND NOT EXISTS (FROM plays p WHERE p.usr = e.usr AND p.day = e."at"::DATE))
;;
SELECT u.usr FROM users u WHERE EXISTS (FROM plays p WHERE p.usr = u.usr AND EXISTS (FROM songs s WHERE s.song = p.song AND s.len > u.rank * 20))
;;
SELECT k FROM plays WHERE usr IN (SELECT usr FROM users WHERE country = (SELECT min(country) FROM users))
;;
SELECT k FROM plays WHERE usr NOT IN (SELECT usr FROM users WHERE rank > 5)
;;
SELECT usr FROM users WHERE usr NOT IN (SELECT usr FROM plays)
;;
SELECT usr FROM users WHERE usr NOT IN (SELECT usr FROM plays WHERE usr IS NOT NULL)
;;
SELECT usr FROM users WHERE (usr IN (SELECT usr FROM plays)) IS NULL
;;
SELECT k, usr IN (SELECT usr FROM users WHERE rank < 4) AS q FROM plays WHERE k < 50
;;
SELECT k, n NOT IN (SELECT id FROM nums) AS a, n IN (SELECT a FROM nums) AS b, n IN (SELECT id FROM empty) AS c, n NOT IN (SELECT id FROM empty) AS d FROM plays
;;
SELECT count(*) FROM plays WHERE k NOT IN (SELECT n FROM plays WHERE n >= 0)
;;
SELECT count(*) FROM plays WHERE k NOT IN (SELECT id FROM empty)
;;
SELECT count(*) FROM plays WHERE n NOT IN (1, 2, NULL)
;;
SELECT count(*) FROM plays WHERE NOT (n NOT IN (1, 2, 3, -4, NULL))
;;
SELECT u.usr, (SELECT count(*) FROM plays p WHERE p.usr = u.usr) AS c, (SELECT sum(n) FROM plays p WHERE p.usr = u.usr) AS s, (SELECT max(kind) FROM events e WHERE e.usr = u.usr) AS m FROM users u
;;
SELECT u.usr, (SELECT count(*) FROM plays p WHERE p.usr = u.usr AND p.k < 0) AS zero, (SELECT sum(k) FROM plays p WHERE p.usr = u.usr AND p.k < 0) AS nul FROM users u
;;
SELECT u.usr FROM users u WHERE (SELECT count(*) FROM plays p WHERE p.usr = u.usr AND p.song = 's3') = 0
;;
SELECT u.usr FROM users u WHERE (SELECT count(*) FROM events e WHERE e.usr = u.usr) > (SELECT count(*) FROM plays p WHERE p.usr = u.usr)
;;
SELECT p.k FROM plays p WHERE p.n > (SELECT avg(q.n) FROM plays q WHERE q.usr = p.usr) + 20
;;
SELECT p.k FROM plays p WHERE p.price = (SELECT max(q.price) FROM plays q WHERE q.usr IS NOT DISTINCT FROM p.usr)
;;
SELECT p.k, (SELECT title FROM songs s WHERE s.song = p.song) AS title FROM plays p WHERE p.k < 60
;;
SELECT p.k, (SELECT e.kind FROM events e WHERE e.usr = p.usr ORDER BY e."at" LIMIT 1) AS firstkind FROM plays p WHERE p.k % 4 = 2
;;
SELECT p.k, (SELECT e.kind FROM events e WHERE e.usr = p.usr ORDER BY e."at" DESC LIMIT 1 OFFSET 1) AS second FROM plays p WHERE p.k < 45
;;
SELECT u.usr, (SELECT list(k ORDER BY k) FROM plays p WHERE p.usr = u.usr) AS ks, (SELECT string_agg(song, ',' ORDER BY k) FROM plays p WHERE p.usr = u.usr AND p.n > 0) AS ss FROM users u
;;
SELECT usr, sum(n) FROM plays p GROUP BY usr HAVING sum(n) > (SELECT avg(rank) FROM users u WHERE u.usr >= p.usr)
;;
SELECT usr, count(*) FROM plays p GROUP BY usr HAVING EXISTS (FROM events e WHERE e.usr = p.usr AND e.kind = (SELECT max(kind) FROM events))
;;
SELECT usr, count(*) c FROM plays p GROUP BY usr HAVING count(*) IN (SELECT rank FROM users)
;;
SELECT usr FROM users u ORDER BY (SELECT count(*) FROM plays p WHERE p.usr = u.usr) DESC, usr LIMIT 6
;;
SELECT u.usr, p.k FROM users u JOIN plays p ON p.usr = u.usr AND p.k = (SELECT max(k) FROM plays)
;;
SELECT u.usr, p.k FROM users u JOIN plays p ON p.usr = u.usr AND p.k = (SELECT max(q.k) FROM plays q WHERE q.usr = u.usr)
;;
SELECT u.usr, p.k FROM users u LEFT JOIN plays p ON p.usr = u.usr AND p.n IN (SELECT id FROM nums WHERE id > 20)
;;
SELECT k, CASE WHEN EXISTS (FROM users u WHERE u.usr = p.usr AND u.rank > 8) THEN 'hi' WHEN usr IN (SELECT usr FROM events) THEN 'ev' ELSE coalesce(usr, 'none') END AS z FROM plays p
;;
SELECT CASE WHEN (SELECT count(*) FROM empty) = 0 THEN (SELECT sum(k) FROM plays) ELSE (SELECT min(k) FROM plays) END AS z
;;
SELECT k FROM plays WHERE n > ALL (SELECT rank FROM users WHERE rank IS NOT NULL)
;;
SELECT k FROM plays WHERE n > ALL (SELECT id FROM empty)
;;
SELECT k FROM plays WHERE n < ANY (SELECT id FROM nums WHERE id < -40)
;;
SELECT count(*) FROM plays WHERE n >= ALL (SELECT n FROM plays)
;;
SELECT count(*) FROM plays WHERE n >= ALL (SELECT n FROM plays WHERE n IS NOT NULL)
;;
SELECT k FROM plays WHERE k = ANY ([3, 77, 199, 200, NULL])
;;
SELECT k, n <> ALL ([1, NULL]) AS a, n = ANY ([n, NULL]) AS b FROM plays WHERE k < 30
;;
SELECT u.usr FROM users u WHERE u.rank > ANY (SELECT p.n FROM plays p WHERE p.usr = u.usr AND p.n > 0)
;;
SELECT u.usr FROM users u WHERE u.rank <= ALL (SELECT p.n FROM plays p WHERE p.usr = u.usr AND p.n IS NOT NULL AND p.n > 0)
;;
SELECT k FROM plays WHERE k = (SELECT id FROM empty)
;;
SELECT k, (SELECT v FROM empty WHERE id = k) AS v FROM plays WHERE k < 3
;;
SELECT k FROM plays WHERE coalesce((SELECT id FROM empty), 7) = k
;;
SELECT k FROM plays WHERE k = (SELECT id FROM nums WHERE id > 40)
;;
SELECT (SELECT usr FROM users) AS x
;;
SELECT (SELECT k FROM plays WHERE k = 55) AS x, (SELECT max(usr) FROM users) AS y, (SELECT count(*) FROM events WHERE usr = 'nobody') AS z
;;
SELECT p.k FROM plays p WHERE (p.usr, p.song) IN (SELECT usr, song FROM plays WHERE k < 100) AND p.k >= 100
;;
SELECT k FROM plays WHERE (k, usr) IN ((1, 'u1'), (2, NULL), (3, 'u3'), (4, 'u4'))
;;
SELECT usr, "at" FROM events WHERE (usr, "at") IN (SELECT usr, max("at") FROM events GROUP BY usr)
;;
SELECT p.k FROM plays p WHERE (p.usr, p.k) IN (SELECT q.usr, max(q.k) FROM plays q WHERE q.n > 0 GROUP BY q.usr)
;;
SELECT k FROM plays WHERE (k, n) >= (190, 0)
;;
SELECT usr, "at" FROM events WHERE (usr, "at") > ('u5', TIMESTAMP '2024-05-05') AND (usr, "at") <= ('u7', TIMESTAMP '2024-05-04 12:00:00')
;;
SELECT count(*) FROM plays WHERE (usr, song) = ('u1', 's1') OR ROW(usr, n) IS NOT DISTINCT FROM ROW('u2', NULL::INTEGER)
;;
WITH t AS (SELECT usr, count(*) AS c FROM plays GROUP BY usr) SELECT a.usr, a.c, b.usr FROM t a JOIN t b ON a.c = b.c AND a.usr < b.usr
;;
WITH t AS MATERIALIZED (SELECT usr, sum(n) AS s FROM plays GROUP BY usr) SELECT (SELECT count(*) FROM t), (SELECT max(s) FROM t), (SELECT min(s) FROM t WHERE usr > 'u15'), (SELECT count(*) FROM t JOIN users USING (usr))
;;
WITH t AS NOT MATERIALIZED (SELECT k, usr, n FROM plays WHERE k >= 50) SELECT a.k, b.k FROM t a JOIN t b ON a.usr = b.usr AND a.n = b.n AND a.k < b.k
;;
WITH t AS MATERIALIZED (SELECT k, usr FROM plays) SELECT * FROM t WHERE k = 42 UNION ALL SELECT * FROM t WHERE k > 195 UNION ALL SELECT count(*), max(usr) FROM t
;;
WITH top AS (SELECT k, n FROM plays WHERE n IS NOT NULL ORDER BY n DESC, k LIMIT 10) SELECT count(*), sum(n), (SELECT min(n) FROM top), (SELECT count(*) FROM top t1 JOIN top t2 ON t1.n = t2.n) FROM top WHERE k > 20
;;
WITH plays AS (SELECT k, usr FROM plays WHERE k < 10) SELECT count(*), max(k) FROM plays
;;
WITH users AS (SELECT usr, n AS rank FROM plays WHERE k BETWEEN 5 AND 90) SELECT u.usr, sum(u.rank), (SELECT count(*) FROM events e WHERE e.usr = u.usr) FROM users u GROUP BY u.usr
;;
WITH empty AS (SELECT 1 AS id, 'x' AS t), nums AS (SELECT id + 1 AS id FROM empty) SELECT p.k, empty.t, nums.id FROM plays p JOIN nums ON p.k = nums.id CROSS JOIN empty
;;
WITH songs(song, title) AS (VALUES ('s1', 'one'), ('s2', 'two'), ('zz', 'none')) SELECT songs.title, count(p.k), sum(p.n) FROM songs LEFT JOIN plays p USING (song) GROUP BY songs.title
;;
SELECT p.k, (WITH users AS (SELECT 99 AS rank) SELECT rank FROM users) AS shadow, (SELECT rank FROM users u WHERE u.usr = p.usr) AS nonshadow FROM plays p WHERE p.k < 12
;;
WITH a AS (SELECT * FROM plays WHERE ok), b AS (SELECT * FROM a WHERE n > 0), c AS (SELECT * FROM b WHERE usr IS NOT NULL), d AS (SELECT usr, song, count(*) AS c FROM c GROUP BY usr, song) SELECT usr, sum(c), count(*) FROM d WHERE usr LIKE 'u1%' GROUP BY usr
;;
SELECT * FROM (SELECT * FROM (SELECT * FROM (SELECT k, usr, n, k + n AS kn FROM plays) WHERE n IS NOT NULL) WHERE kn > 100) WHERE k < 140
;;
SELECT * FROM (SELECT usr, max(k) AS mk, count(*) AS c FROM (SELECT k, usr FROM (SELECT * FROM plays) WHERE n <> 0) GROUP BY usr) WHERE usr >= 'u5' AND mk > 150
;;
SELECT * FROM (SELECT k, usr, row_number() OVER (PARTITION BY usr ORDER BY k DESC) AS r FROM plays) WHERE r = 1 AND k < 190
;;
SELECT * FROM (SELECT k, usr, row_number() OVER (PARTITION BY usr ORDER BY k) AS r, count(*) OVER () AS total FROM plays) WHERE usr = 'u7' AND k > 50
;;
SELECT * FROM (SELECT k, usr FROM plays ORDER BY k LIMIT 20) WHERE k > 10 AND usr IS NOT NULL
;;
SELECT * FROM (SELECT * FROM (SELECT k, n FROM plays ORDER BY k DESC LIMIT 30 OFFSET 5) ORDER BY n NULLS FIRST, k LIMIT 12) WHERE n IS NULL OR n < 40
;;
SELECT q.a, q.c FROM (SELECT usr, song, count(*) FROM plays GROUP BY usr, song) AS q(a, b, c) JOIN users AS z(a, nm) ON q.a = z.a WHERE q.c >= 1 AND z.nm IS NOT NULL
;;
SELECT k, song FROM plays AS t(k, song) WHERE k < 5
;;
WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i * 3 FROM r WHERE i < 200) SELECT p.k, p.usr FROM r JOIN plays p ON p.k = r.i
;;
WITH RECURSIVE r AS (SELECT k, 0 AS d FROM plays WHERE k = 3 UNION SELECT p.k, r.d + 1 FROM r JOIN plays p ON p.k = r.k * 2 + 1 WHERE r.d < 10) SELECT * FROM r
;;
WITH RECURSIVE r(usr) AS (SELECT 'u1' UNION SELECT q.usr FROM r JOIN plays p ON p.usr = r.usr JOIN plays q ON q.song = p.song AND q.k > p.k WHERE q.usr IS NOT NULL) SELECT r.usr, u.name FROM r LEFT JOIN users u USING (usr)
;;
WITH RECURSIVE r(id, depth) AS (SELECT id, 0 FROM nums WHERE id = -45 UNION ALL SELECT n.id, depth + 1 FROM r JOIN nums n ON n.id = r.id + 7) SELECT count(*), max(depth), sum(id) FROM r
;;
WITH RECURSIVE d(k, dist) USING KEY (k) AS (SELECT 1::BIGINT, 0 UNION SELECT p.k, min(d.dist + 1) FROM d JOIN plays p ON p.k = d.k + 3 OR p.k = d.k * 2 LEFT JOIN recurring.d r ON r.k = p.k WHERE p.k < 60 AND (r.dist IS NULL OR r.dist > d.dist + 1) GROUP BY p.k) SELECT k, dist FROM d
;;
WITH RECURSIVE e AS (SELECT DISTINCT usr AS a, 'u' || (k % 20) AS b FROM plays WHERE usr IS NOT NULL AND k < 30), reach(a, b) AS (SELECT a, b FROM e UNION SELECT r.a, e.b FROM reach r JOIN e ON r.b = e.a) SELECT a, count(*) FROM reach GROUP BY a
;;
WITH RECURSIVE r AS (SELECT id FROM empty UNION ALL SELECT id + 1 FROM r WHERE id < 5) SELECT count(*), max(id) FROM r
;;
SELECT k, usr FROM plays WHERE k = 5.0
;;
SELECT k FROM plays WHERE k = 5.5 OR k = '5' OR k = 1e1 OR k = 17::UTINYINT
;;
SELECT k FROM plays WHERE k < 2.5 OR k >= 197.000001
;;
SELECT k FROM plays WHERE k BETWEEN 3.2 AND 6.9
;;
SELECT k FROM plays WHERE k IN (1, NULL, 3.0, 4.5)
;;
SELECT count(*) FROM plays WHERE k NOT IN (1, NULL)
;;
SELECT k FROM plays WHERE k IN ('7', '8', '1000')
;;
SELECT k FROM plays WHERE k = 'seven'
;;
SELECT count(*), min(k) FROM plays WHERE k = -1 OR k = 200 OR k = 9223372036854775807 OR k = 18446744073709551616
;;
SELECT count(*), sum(k) FROM plays WHERE k > -9223372036854775808 AND k < 1e30
;;
SELECT id, a FROM nums WHERE id = -45 OR id BETWEEN -3 AND -1 OR id > 43
;;
SELECT count(*) FROM nums WHERE id < 3000000000 AND id <> -44.5 AND id >= -44.5
;;
SELECT k FROM plays WHERE k::VARCHAR LIKE '1_5' OR k::VARCHAR = '007' OR k::INTEGER::VARCHAR = '7'
;;
SELECT k FROM plays WHERE k::TINYINT = 5
;;
SELECT k FROM plays WHERE try_cast(k AS TINYINT) IS NULL AND k % 10 = 0
;;
SELECT k FROM plays WHERE (k >= 10 AND k < 12) OR (k > 100 AND k <= 101) OR (k BETWEEN 150 AND 149) OR k = 12 AND n IS NOT NULL
;;
SELECT k FROM plays WHERE k > 10 AND k < 5
;;
SELECT count(*), sum(n), max(usr) FROM plays WHERE k = 3 AND k = 4
;;
SELECT usr, count(*) FROM plays WHERE k IS NULL GROUP BY usr
;;
SELECT count(*) FROM plays WHERE k = NULL OR k IS NOT DISTINCT FROM NULL
;;
SELECT k FROM plays WHERE k IS NOT DISTINCT FROM 9 OR k IS NOT DISTINCT FROM NULL
;;
SELECT count(*) FROM plays WHERE NOT (k = 5 AND usr = 'u5') AND NOT (n > 0 OR ok)
;;
SELECT count(*), count(n), sum(k) FROM plays WHERE n = n OR n IS NULL
;;
SELECT count(*) FROM plays WHERE (ok OR NOT ok) AND (n > 0) IS NOT TRUE AND (usr = 'u1') IS NOT FALSE
;;
SELECT k FROM plays WHERE CASE WHEN k < 10 THEN n > 0 WHEN k > 190 THEN NULL ELSE k = 55 END
;;
SELECT usr, name FROM users WHERE usr BETWEEN 'u1' AND 'u19'
;;
SELECT usr, count(*) FROM events WHERE usr LIKE 'u1%' AND usr NOT LIKE 'u1_' GROUP BY usr
;;
SELECT usr FROM users WHERE starts_with(usr, 'u2') OR prefix(usr, 'u1') AND suffix(usr, '9')
;;
SELECT usr, rank FROM users WHERE usr >= 'u2' AND usr < 'u3'
;;
SELECT count(*) FROM users WHERE usr LIKE 'u\_%' ESCAPE '\' OR usr LIKE '%%u0%%' OR usr ILIKE 'U1' OR usr ^@ 'u_'
;;
SELECT usr, rank FROM users WHERE usr = 'U7' COLLATE NOCASE OR usr COLLATE NOCASE IN ('U8', 'u9', 'U99')
;;
SELECT count(*) FROM plays p JOIN (SELECT upper(usr) AS uu FROM users) u ON p.usr COLLATE NOCASE = u.uu
;;
SELECT usr, "at" FROM events WHERE usr = 'u4' AND "at" >= DATE '2024-05-02' AND "at" < DATE '2024-05-02' + INTERVAL 2 DAY
;;
SELECT usr, "at", v FROM events WHERE "at" BETWEEN '2024-05-03' AND '2024-05-03 18:30:00' AND usr IN ('u2', 'u12', 'nobody', NULL)
;;
SELECT usr, count(*) FROM events WHERE "at"::DATE = '2024-05-06' OR date_trunc('hour', "at") = TIMESTAMP '2024-05-01 03:00:00' GROUP BY usr
;;
SELECT count(*) FROM plays LIMIT 0
;;
SELECT k FROM plays ORDER BY k LIMIT 5 OFFSET 500
;;
SELECT usr FROM plays UNION SELECT usr FROM users UNION SELECT usr FROM events
;;
SELECT usr, count(*) FROM (SELECT usr FROM plays UNION ALL SELECT usr FROM users UNION ALL SELECT usr FROM events WHERE v > 0) GROUP BY usr
;;
SELECT usr FROM users EXCEPT SELECT usr FROM plays
;;
SELECT usr FROM events INTERSECT ALL SELECT usr FROM plays
;;
SELECT usr, song FROM plays EXCEPT ALL SELECT usr, song FROM plays WHERE k % 2 = 0
;;
(SELECT k FROM plays ORDER BY k DESC LIMIT 3) UNION ALL (SELECT id FROM nums ORDER BY id LIMIT 3) UNION ALL (SELECT id FROM empty ORDER BY id LIMIT 1) ORDER BY 1 LIMIT 5
;;
SELECT k AS id, usr AS t FROM plays WHERE k < 4 UNION BY NAME SELECT t, v, id FROM empty UNION ALL BY NAME SELECT a, id FROM nums WHERE id BETWEEN 0 AND 3
;;
SELECT v, count(*) FROM (SELECT k AS v FROM plays WHERE k < 20 UNION SELECT id / 2 FROM nums UNION SELECT rank FROM users) GROUP BY v HAVING v BETWEEN -1.5 AND 12
;;
SELECT k, o, tag FROM plays, unnest(tags) WITH ORDINALITY AS x(tag, o) WHERE k < 60
;;
SELECT n.id, x.e, p.usr FROM nums n CROSS JOIN unnest(n.l) AS x(e) LEFT JOIN plays p ON p.k = x.e WHERE n.id % 3 = 0
;;
SELECT k, unnest(s) FROM plays WHERE k BETWEEN 20 AND 35
;;
SELECT g.i, count(p.k), min(p.n) FROM generate_series(-5, 205, 15) AS g(i) LEFT JOIN plays p ON p.k >= g.i AND p.k < g.i + 15 GROUP BY g.i
;;
SELECT v.a, v.b, p.usr FROM (VALUES (1, 'u1'), (5, NULL), (NULL, 'u2'), (250, 'u3')) v(a, b) LEFT JOIN plays p ON p.k = v.a AND p.usr IS DISTINCT FROM v.b
;;
SELECT r.d, count(p.k), count(DISTINCT e.usr) FROM (SELECT unnest(range(DATE '2024-04-30', DATE '2024-05-12', INTERVAL 1 DAY))::DATE) r(d) LEFT JOIN plays p ON p.day = r.d LEFT JOIN events e ON e."at"::DATE = r.d AND e.usr = p.usr GROUP BY r.d
;;
((SELECT usr FROM plays WHERE k < 90 EXCEPT SELECT usr FROM users WHERE rank > 6) INTERSECT (SELECT usr FROM events UNION SELECT NULL) ORDER BY usr DESC NULLS LAST LIMIT 8) UNION ALL (SELECT usr FROM users WHERE usr > 'u2' ORDER BY usr LIMIT 4 OFFSET 1)
;;
SELECT * FROM (SELECT k, usr FROM plays WHERE k < 9) a JOIN (SELECT usr, country FROM users) b USING (usr) JOIN (SELECT usr, rank FROM users) c ON c.rank = a.k ORDER BY a.k, c.usr
;;
SELECT * EXCLUDE (usr) FROM (SELECT k, usr FROM plays WHERE k < 9) a JOIN (SELECT usr, country FROM users) b USING (usr) JOIN (SELECT usr, rank FROM users) c ON c.rank = a.k ORDER BY a.k, country, rank
;;
SELECT * EXCLUDE (usr, name) FROM plays LEFT JOIN users USING (usr) ORDER BY k
;;
SELECT usr, * EXCLUDE (usr) FROM (SELECT k, usr FROM plays WHERE k < 30) p FULL JOIN (SELECT usr, country FROM users) u USING (usr) ORDER BY k, usr
