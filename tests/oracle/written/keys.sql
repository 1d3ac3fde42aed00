SELECT k, usr, n FROM plays WHERE k = '5'
;;
SELECT k, usr FROM plays WHERE k = 5.0
;;
select k, song from plays where k = 5.5
;;
SELECT k, typeof(k) FROM plays WHERE k = 5::HUGEINT
;;
SELECT k FROM plays WHERE k = 5e0
;;
SELECT k, price FROM plays WHERE k = 5::DECIMAL(18,3) OR k = 6::TINYINT OR k = 7::UBIGINT OR k = 8::FLOAT
;;
SELECT k FROM plays WHERE k = 170141183460469231731687303715884105727
;;
SELECT count(*) FROM plays WHERE k < 9223372036854775808
;;
SELECT count(*), min(k), max(k) FROM plays WHERE k BETWEEN -9223372036854775808 AND 9223372036854775807
;;
SELECT k FROM plays WHERE k = 'five'
;;
SELECT k FROM plays WHERE k = '5.0'
;;
SELECT k FROM plays WHERE k = ' 5 '
;;
SELECT k FROM plays WHERE k::VARCHAR = '5'
;;
SELECT k FROM plays WHERE k::VARCHAR = '05'
;;
SELECT k FROM plays WHERE k + 0 = 5
;;
SELECT k FROM plays WHERE 5 = k
;;
SELECT k, n FROM plays WHERE -k = -5
;;
SELECT k FROM plays WHERE k * 2 = 11 ORDER BY k
;;
SELECT k FROM plays WHERE k / 2 = 2.5 ORDER BY 1
;;
SELECT k FROM plays WHERE k // 2 = 2 ORDER BY 1
;;
SELECT k FROM plays WHERE k::DOUBLE = 5.0000000000000001
;;
SELECT k FROM plays WHERE k::UTINYINT = 5
;;
SELECT k FROM plays WHERE k::TINYINT = 5
;;
SELECT k FROM plays WHERE k < 100 AND k::TINYINT = 5
;;
SELECT k FROM plays WHERE TRY_CAST(k AS TINYINT) IS NULL ORDER BY k LIMIT 7
;;
SELECT k FROM plays WHERE k = true
;;
SELECT k FROM plays WHERE k::BOOLEAN = false
;;
SELECT k FROM plays WHERE k = NULL
;;
SELECT k FROM plays WHERE k IS NOT DISTINCT FROM NULL
;;
SELECT k FROM plays WHERE k IS NOT DISTINCT FROM '17'
;;
SELECT count(*) FROM plays WHERE k IS DISTINCT FROM 17
;;
SELECT k FROM plays WHERE k = DATE '2024-05-01'
;;
SELECT usr, "at", kind FROM events WHERE "at" = DATE '2024-05-03'
;;
SELECT usr, "at", kind
FROM events
WHERE "at" >= DATE '2024-05-03' AND "at" < '2024-05-04' AND usr IN ('u1', 'u2', 'u3')
ORDER BY usr, "at"
;;
SELECT usr, "at" FROM events WHERE "at"::DATE = '2024-05-02' AND usr = 'u7' ORDER BY "at"
;;
SELECT k, "at", day FROM plays WHERE day = TIMESTAMP '2024-05-04 00:00:00' ORDER BY k
;;
SELECT k, day FROM plays WHERE day = TIMESTAMP '2024-05-04 00:00:01' ORDER BY k
;;
SELECT k FROM plays WHERE day < "at"::DATE AND k < 40 ORDER BY k
;;
SELECT k, "at", day FROM plays WHERE day >= "at" AND k BETWEEN 20 AND 60 ORDER BY k
;;
SELECT usr FROM users WHERE usr = 'U3'
;;
SELECT usr FROM users WHERE usr ILIKE 'U3'
;;
SELECT usr, name FROM users WHERE usr = 'U3' COLLATE NOCASE
;;
SELECT usr, name FROM users WHERE usr COLLATE NOCASE IN ('U3', 'u4') ORDER BY usr
;;
SELECT usr, name FROM users WHERE lower(usr) = 'u3'
;;
SELECT usr, name FROM users WHERE usr || '' = 'u3'
;;
SELECT usr FROM users WHERE usr = 'u3 '
;;
SELECT usr FROM users WHERE trim(usr) = rtrim('u3   ')
;;
SELECT usr FROM users WHERE usr = 3
;;
SELECT usr FROM users WHERE usr[2:]::INT = 3
;;
SELECT usr, rank FROM users WHERE usr = concat('u', 3)
;;
SELECT usr FROM users WHERE usr = 'u' || NULL
;;
SELECT usr FROM users WHERE usr = concat('u', NULL, 3)
;;
SELECT usr, name FROM users WHERE usr LIKE 'u1_' ORDER BY usr
;;
SELECT usr, name FROM users WHERE usr LIKE 'u3'
;;
SELECT usr FROM users WHERE starts_with(usr, 'u2') AND usr <> 'u2' ORDER BY ALL
;;
SELECT id, b FROM nums WHERE id = 3000000000
;;
SELECT id, b FROM nums WHERE id > -2147483649 AND id < -42 ORDER BY id
;;
SELECT id FROM nums WHERE id = -2147483648 OR id = 2147483647 OR id = -0
;;
SELECT id, b FROM nums WHERE b = 256
;;
SELECT id, b FROM nums WHERE b = -1 OR id = -45
;;
SELECT id FROM nums WHERE id = 1.4999
;;
SELECT id FROM nums WHERE id IN (1.5, 2.0, 3) ORDER BY id
;;
SELECT id FROM nums WHERE id IN ('1', 2, '-3') ORDER BY id
;;
SELECT id FROM nums WHERE id IN (1, 1, 1::BIGINT, 2::TINYINT, NULL, 2, 1.0) ORDER BY id
;;
SELECT count(*) FROM nums WHERE id NOT IN (1, 2, NULL)
;;
SELECT count(*) FROM nums WHERE (id IN (1, 2, NULL)) IS NULL
;;
SELECT id, id IN (1, NULL) AS maybe, id NOT IN (1, NULL) AS maybe_not FROM nums WHERE id BETWEEN 0 AND 2 ORDER BY id
;;
SELECT id FROM nums WHERE id IN (NULL)
;;
SELECT k FROM plays WHERE k IN ()
;;
SELECT k FROM plays WHERE k IN (1, 'two', 3)
;;
SELECT k FROM plays WHERE k = ANY([3, 1, 3, NULL]) ORDER BY k
;;
SELECT k FROM plays WHERE k = ANY([]) ORDER BY k
;;
SELECT k FROM plays WHERE list_contains([7, 9, 300, NULL], k) ORDER BY k DESC
;;
SELECT k FROM plays WHERE k IN [4, 8, 15, 16, 23, 42] ORDER BY 1
;;
SELECT k, n FROM plays WHERE k IN (SELECT unnest([4, 8, NULL, 8])) ORDER BY k
;;
SELECT count(*) FROM plays WHERE k NOT IN (SELECT unnest([4, 8, NULL]))
;;
SELECT count(*) FROM plays WHERE k <> ALL (SELECT id FROM nums WHERE id >= 0)
;;
SELECT k FROM plays WHERE k >= ALL (SELECT id FROM nums) AND k < 50 ORDER BY k
;;
SELECT k FROM plays WHERE k > ALL (SELECT id FROM empty) AND k % 50 = 0 ORDER BY k
;;
SELECT k FROM plays WHERE k = ANY (SELECT id FROM empty)
;;
SELECT usr, "at", kind, v
FROM events
WHERE (usr, "at") IN (SELECT usr, max("at") FROM events GROUP BY usr)
ORDER BY usr
;;
SELECT e.usr, e."at" FROM events e WHERE (e.usr, e."at") IN (('u1', TIMESTAMP '2024-05-01 00:00:00'), ('u2', NULL))
;;
SELECT k, usr FROM plays WHERE (k, usr) = (5, usr)
;;
SELECT k FROM plays WHERE (k, 1) < (3, 0) ORDER BY k
;;
SELECT k FROM plays WHERE (k, n) >= (196, 0) ORDER BY k
;;
SELECT k FROM plays WHERE (usr, k) > ('u9', 150) ORDER BY k
;;
SELECT k FROM plays WHERE row(k, usr) IN (row(1, 'u1'), row(2, NULL)) ORDER BY k
;;
SELECT k FROM plays WHERE (k, n) IN ((1, 2, 3))
;;
SELECT k FROM plays WHERE k BETWEEN 10 AND 5
;;
SELECT count(*), sum(n), max(price) FROM plays WHERE k BETWEEN 10 AND 5
;;
SELECT k FROM plays WHERE k NOT BETWEEN 198 AND 3 AND k < 4 ORDER BY k
;;
SELECT k FROM plays WHERE NOT (k BETWEEN 3 AND 197) ORDER BY k
;;
SELECT k FROM plays WHERE k BETWEEN NULL AND 2
;;
SELECT count(*) FROM plays WHERE NOT (k BETWEEN NULL AND 2)
;;
SELECT count(*) FROM plays WHERE k BETWEEN '10' AND '9'
;;
SELECT k FROM plays WHERE k = 1 AND k = 2
;;
SELECT k, n FROM plays WHERE k = 1 OR n = 1 ORDER BY k
;;
SELECT k, n, ok FROM plays WHERE (k = 3 AND n IS NOT NULL) OR (k = 4 AND ok) OR (k IN (5, 6) AND NOT ok) ORDER BY k
;;
SELECT k, n FROM plays WHERE NOT (k <> 5 AND (n > 3 OR n <= 3)) ORDER BY k
;;
SELECT k FROM plays WHERE NOT (k > 2) ORDER BY k
;;
SELECT k FROM plays WHERE NOT (k IN (1, 2)) AND k < 5 ORDER BY k
;;
SELECT k FROM plays WHERE CASE WHEN k < 3 THEN true WHEN k = 50 THEN NULL ELSE k = 100 END ORDER BY k
;;
SELECT k FROM plays WHERE CASE k WHEN 1 THEN 'a' WHEN 2 THEN 'b' END = 'b'
;;
SELECT k FROM plays WHERE (k = 5) = true
;;
SELECT k FROM plays WHERE (k = 5) IS NOT FALSE
;;
SELECT count(*) FROM plays WHERE (k = 5) IS FALSE
;;
SELECT k FROM plays WHERE (k = 5)::INT = 1
;;
SELECT k FROM plays WHERE coalesce(k, 5) = 5
;;
SELECT k FROM plays WHERE nullif(k, 5) IS NULL
;;
SELECT k FROM plays WHERE if(k = 5, k, NULL) = 5
;;
SELECT k FROM plays WHERE greatest(k, 195) = k ORDER BY k
;;
SELECT k FROM plays WHERE abs(k - 100) <= 2 ORDER BY k
;;
SELECT k FROM plays WHERE k % 50 = 0 AND k > 0 ORDER BY 1 DESC
;;
SELECT k FROM plays WHERE k % 0 = 1
;;
SELECT k FROM plays WHERE 10 // (k - 5) = 5 ORDER BY k
;;
SELECT k, 10 / (k - 5) AS q FROM plays WHERE k BETWEEN 4 AND 6 ORDER BY k
;;
SELECT k FROM plays WHERE k = 5 AND usr::INT = 3
;;
SELECT k FROM plays WHERE k < 0 AND song::INT = 3
;;
SELECT k FROM plays WHERE false AND usr::DATE = '2024-01-01'
;;
SELECT k FROM plays WHERE k IN (3, 5) AND TRY_CAST(usr AS INT) IS NULL ORDER BY k
;;
SELECT k FROM plays WHERE 1 = 1 AND NOT false AND k < 3 ORDER BY k
;;
SELECT k FROM plays WHERE NULL
;;
SELECT k FROM plays WHERE NULL OR k = 9
;;
SELECT count(*) FROM plays WHERE k = k
;;
SELECT count(*) FROM plays WHERE usr = usr
;;
SELECT count(*) FROM plays WHERE usr <> usr OR k > k
;;
SELECT count(*) FROM plays WHERE k = 5 OR k <> 5 OR k IS NULL
;;
SELECT k FROM plays WHERE 'k' = 5
;;
SELECT "K", "Usr" FROM "PLAYS" WHERE "K" = 5
;;
FROM plays SELECT k, usr WHERE k = 5
;;
FROM users WHERE usr = 'u0'
;;
FROM plays WHERE k > 250
;;
SELECT k AS usr, usr AS k FROM plays WHERE k = 12
;;
SELECT n AS k, count(*) AS c FROM plays WHERE k < 30 GROUP BY n ORDER BY k NULLS FIRST, c
;;
SELECT k % 10 AS k, count(*) FROM plays GROUP BY 1 HAVING k = 3 ORDER BY 1
;;
SELECT k + 1 AS j FROM plays WHERE j = 5
;;
SELECT k + 1 AS k FROM plays WHERE k = 5
;;
SELECT plays.k FROM plays AS p WHERE plays.k = 5
;;
SELECT plays.usr FROM users AS plays WHERE plays.usr = 'u5'
;;
-- both the table and its column are called the same
SELECT song, song.title FROM songs AS song WHERE song.song = 's4'
;;
SELECT p.k, u.name, e."at"
FROM plays p
JOIN users u ON u.usr = p.usr
JOIN events e ON e.usr = u.usr
WHERE p.usr = 'u4' AND e.kind = 'buy'
ORDER BY p.k, e."at"
;;
SELECT usr, count(*) AS rows, count(DISTINCT k) AS plays, count(DISTINCT e."at") AS events
FROM plays JOIN users USING (usr) JOIN events e USING (usr)
WHERE usr IN ('u1', 'u11', 'u24', NULL)
GROUP BY usr
ORDER BY usr
;;
SELECT usr, name, k FROM users NATURAL JOIN plays WHERE usr = 'u8' ORDER BY k
;;
SELECT k, title, genre FROM plays NATURAL JOIN songs WHERE song = 's7' ORDER BY k
;;
SELECT count(*) FROM plays NATURAL JOIN events
;;
SELECT p.k, q.k AS next_k, q.n - p.n AS diff
FROM plays p JOIN plays q ON q.k = p.k + 1
WHERE p.k BETWEEN 10 AND 15
ORDER BY p.k
;;
SELECT count(*) FROM plays a JOIN plays b USING (k) JOIN plays c USING (k) WHERE a.k < 10 AND b.k > 3 AND c.k <> 5
;;
SELECT a.k, b.k FROM plays a JOIN plays b ON a.k = b.k AND a.k = 5 AND b.k = 6
;;
SELECT a.k, b.k FROM plays a LEFT JOIN plays b ON a.k = b.k AND b.k = 6 WHERE a.k IN (5, 6, 7) ORDER BY a.k
;;
SELECT a.k, b.k AS bk FROM plays a LEFT JOIN plays b ON a.k = b.k AND a.k = 5 WHERE a.k BETWEEN 4 AND 6 ORDER BY 1
;;
SELECT a.k, b.k AS bk FROM plays a LEFT JOIN plays b ON a.k = b.k AND a.k = 5 WHERE b.k IS NULL AND a.k < 8 ORDER BY 1
;;
select u.usr, u.name, p.k
from users u left join plays p on p.usr = u.usr and p.k < 20
where u.usr >= 'u2'
order by u.usr, p.k nulls first
;;
SELECT u.usr, p.k
FROM users u LEFT JOIN plays p ON p.usr = u.usr
WHERE p.k < 20 -- makes it an inner join
ORDER BY p.k
;;
SELECT u.usr, p.k
FROM users u LEFT JOIN plays p ON p.usr = u.usr
WHERE coalesce(p.k, 0) < 3
ORDER BY u.usr, p.k NULLS LAST
;;
SELECT u.usr, u.country
FROM plays p RIGHT JOIN users u ON u.usr = p.usr AND p.ok
WHERE p.k IS NULL
ORDER BY ALL
;;
SELECT p.usr, u.usr, p.k
FROM plays p RIGHT JOIN users u ON u.usr = p.usr AND u.country = 'DE'
WHERE u.rank > 6 AND (p.k < 100 OR p.k IS NULL)
ORDER BY u.usr, p.k
;;
SELECT usr, p.usr AS pu, e.usr AS eu, count(*) AS c
FROM (SELECT usr, k FROM plays WHERE k < 60) p FULL JOIN (SELECT usr, "at" FROM events WHERE v > 80) e USING (usr)
GROUP BY ALL
ORDER BY ALL
;;
SELECT coalesce(p.k, n.id) AS key, p.k, n.id
FROM plays p FULL OUTER JOIN nums n ON p.k = n.id
WHERE coalesce(p.k, n.id) BETWEEN -3 AND 3
ORDER BY key
;;
SELECT count(*), count(p.k), count(n.id)
FROM plays p FULL JOIN nums n ON p.k = n.id AND n.id = 5 AND p.k = 5
;;
SELECT p.k, n.id FROM plays p FULL JOIN nums n ON p.k = n.id WHERE p.k = 44 OR n.id = -45 ORDER BY p.k NULLS FIRST
;;
SELECT p.k, n.id FROM plays p FULL JOIN nums n ON p.k = n.id WHERE n.id = 12
;;
SELECT k, id FROM (SELECT k FROM plays WHERE k < 3) FULL JOIN (SELECT id FROM nums WHERE id BETWEEN 2 AND 4) ON k = id AND k > 100 ORDER BY k, id
;;
SELECT p.k, n.id, typeof(n.id), n.b FROM plays p JOIN nums n ON n.id = p.k AND n.b = p.k
;;
SELECT p.k, n.id FROM plays p JOIN nums n ON n.id::VARCHAR = p.k::VARCHAR WHERE n.id > 40 ORDER BY p.k
;;
SELECT p.k, p.usr, u.usr FROM plays p JOIN users u ON u.usr = 'u' || (p.k % 25) WHERE p.k IN (3, 28, 53, 199) ORDER BY p.k
;;
SELECT p.k, n.id FROM plays p JOIN nums n ON p.k < n.id AND n.id < p.k + 3 WHERE p.k >= 40 ORDER BY 1, 2
;;
SELECT count(*) FROM plays p JOIN plays q ON p.song IS NOT DISTINCT FROM q.song AND p.k < q.k
;;
SELECT p.k, q.k AS other
FROM plays p LEFT JOIN plays q ON p.usr IS NOT DISTINCT FROM q.usr AND q.usr IS NULL AND p.k <> q.k
WHERE p.k < 25
ORDER BY p.k, other
;;
SELECT p.k, n.id FROM plays p JOIN nums n ON n.id = p.s.x WHERE p.k < 15 ORDER BY p.k
;;
SELECT p.s.y AS y, count(*) AS c, count(DISTINCT n.id) AS ids
FROM plays p LEFT JOIN nums n ON n.id = p.s['x'] AND n.id > 4
GROUP BY p.s.y
ORDER BY y NULLS LAST
;;
SELECT p.k, t.tag, q.k AS q
FROM plays p, unnest(p.tags) AS t(tag) JOIN plays q ON q.tags[1] = t.tag AND q.k < 4
WHERE p.k BETWEEN 50 AND 54
ORDER BY ALL
;;
SELECT tag, count(*) AS c, min(k) AS first
FROM (SELECT k, unnest(tags) AS tag FROM plays WHERE k >= 100)
WHERE tag IN ('a', 'c') AND k <> 150
GROUP BY tag
ORDER BY tag
;;
SELECT s.song, s.title, p.k
FROM songs s LEFT JOIN plays p ON p.song = s.song AND p.k < 50 AND s.genre = 'rock'
WHERE s.song IN ('s1', 's2', 's3', 's30', 's34')
ORDER BY s.song, p.k
;;
SELECT genre, count(*) AS n, count(DISTINCT p.k) AS d, sum(p.price) AS total
FROM plays p JOIN songs USING (song)
WHERE song = 's5' OR genre = 'pop'
GROUP BY genre
ORDER BY genre NULLS LAST
;;
SELECT s.song FROM songs s WHERE s.song NOT IN (SELECT song FROM plays) ORDER BY 1
;;
SELECT s.song FROM songs s WHERE s.song NOT IN (SELECT p.song FROM plays p WHERE p.song IS NOT NULL) ORDER BY 1
;;
SELECT song FROM songs ANTI JOIN plays USING (song) ORDER BY song
;;
SELECT usr, name FROM users SEMI JOIN events ON users.usr = events.usr AND events.v > 97 ORDER BY usr
;;
SELECT usr FROM users ANTI JOIN (SELECT usr FROM events WHERE usr < 'u2') x USING (usr) WHERE usr <> 'u3' ORDER BY 1
;;
SELECT k FROM plays ANTI JOIN nums ON k = id OR k > 55 ORDER BY k
;;
SELECT p.k, e.id, e.t FROM plays p LEFT JOIN empty e ON e.id = p.k WHERE p.k < 3 ORDER BY p.k
;;
SELECT count(*), count(e.id), sum(e.v) FROM empty e RIGHT JOIN songs s ON e.t = s.song WHERE e.v IS NULL
;;
SELECT p.k FROM plays p, empty WHERE p.k = 5
;;
SELECT coalesce(e.id, n.id, -1) AS i FROM empty e FULL JOIN nums n USING (id) WHERE i > 42 ORDER BY i
;;
SELECT * FROM empty WHERE id = 5 OR t = 'x'
;;
SELECT count(*), sum(id), min(t), max(v), list(id) FROM empty WHERE id = 3
;;
SELECT id, count(*) FROM empty GROUP BY id
;;
SELECT count(*) AS c, sum(n) AS s FROM plays WHERE k = 1000 GROUP BY ()
;;
SELECT count(*) AS c, sum(n) AS s FROM plays WHERE k = 1000 GROUP BY k
;;
SELECT 1 FROM plays WHERE k = 1000 HAVING count(*) = 0
;;
SELECT p.k, n.id FROM plays p CROSS JOIN nums n WHERE p.k + n.id = 0 AND n.id < -40 ORDER BY 1
;;
SELECT k FROM plays p, users u WHERE p.usr = u.usr AND usr = 'u3'
;;
SELECT usr, k FROM plays p JOIN users u ON p.usr = u.usr WHERE k = 5
;;
SELECT u.usr, u.name
FROM users u
WHERE EXISTS (FROM plays p WHERE p.usr = u.usr AND p.price > 900)
  AND NOT EXISTS (FROM events e WHERE e.usr = u.usr AND e.kind IS NULL AND e.v < 50)
ORDER BY u.usr
;;
SELECT p.k FROM plays p WHERE EXISTS (SELECT 1 FROM nums n WHERE n.id = p.k AND n.b > 200) ORDER BY p.k
;;
SELECT p.k FROM plays p WHERE p.k < 30 AND NOT EXISTS (SELECT * FROM plays q WHERE q.song = p.song AND q.k < p.k) ORDER BY p.k
;;
SELECT count(*) FROM plays WHERE EXISTS (SELECT 1 FROM empty) OR k = 7
;;
SELECT count(*) FROM plays WHERE NOT EXISTS (SELECT NULL FROM empty WHERE empty.id = plays.k)
;;
SELECT u.usr,
       (SELECT count(*) FROM plays p WHERE p.usr = u.usr) AS plays,
       (SELECT count(*) FROM events e WHERE e.usr = u.usr AND e.kind = 'buy') AS buys,
       (SELECT max(p.k) FROM plays p WHERE p.usr = u.usr AND p.ok) AS last_ok
FROM users u
ORDER BY u.usr
;;
SELECT u.usr FROM users u WHERE (SELECT count(*) FROM plays p WHERE p.usr = u.usr) = 0 ORDER BY 1
;;
SELECT u.usr, (SELECT count(*) + 1 FROM plays p WHERE p.usr = u.usr AND p.k < 20) AS c
FROM users u WHERE u.usr IN ('u20', 'u3', 'u24') ORDER BY u.usr
;;
SELECT p.k, (SELECT n.b FROM nums n WHERE n.id = p.k) AS b FROM plays p WHERE p.k BETWEEN 43 AND 47 ORDER BY p.k
;;
SELECT p.k, (SELECT q.k FROM plays q WHERE q.usr = p.usr) AS any_of_many FROM plays p WHERE p.k < 5 ORDER BY p.k
;;
SELECT k, n FROM plays WHERE k = (SELECT max(id) FROM nums)
;;
SELECT k, n FROM plays WHERE k = (SELECT max(id) FROM empty)
;;
SELECT k FROM plays p WHERE n > (SELECT avg(n) FROM plays q WHERE q.usr = p.usr) AND k < 40 ORDER BY k
;;
SELECT p.usr, sum(p.n) AS total
FROM plays p
GROUP BY p.usr
HAVING sum(p.n) > (SELECT sum(u.rank) FROM users u WHERE u.usr <= p.usr)
ORDER BY p.usr
;;
SELECT usr, count(*) AS c FROM plays GROUP BY usr HAVING usr = 'u3' OR count(*) > (SELECT count(*) FROM users) / 2 ORDER BY usr NULLS FIRST
;;
SELECT usr FROM users u ORDER BY (SELECT count(*) FROM plays p WHERE p.usr = u.usr) DESC, usr LIMIT 6
;;
SELECT (SELECT u.country FROM users u WHERE u.usr = p.usr) AS country, count(*) AS c, min(k) AS k
FROM plays p
GROUP BY country
ORDER BY country NULLS LAST
;;
SELECT k FROM plays ORDER BY k LIMIT (SELECT count(*) FROM songs WHERE genre = 'nothing')
;;
SELECT k FROM plays ORDER BY k LIMIT (SELECT max(rank) FROM users) OFFSET (SELECT max(id) FROM nums)
;;
SELECT u.usr
FROM users u
WHERE EXISTS (
    SELECT 1 FROM plays p
    WHERE p.usr = u.usr
      AND NOT EXISTS (SELECT 1 FROM events e WHERE e.usr = u.usr AND e."at" < p."at")
)
ORDER BY u.usr
;;
SELECT u.usr, (SELECT sum((SELECT count(*) FROM nums n WHERE n.id = p.k AND u.rank > 4)) FROM plays p WHERE p.usr = u.usr) AS deep
FROM users u
ORDER BY u.usr
;;
SELECT u.usr, x.k, x.price
FROM users u, LATERAL (SELECT p.k, p.price FROM plays p WHERE p.usr = u.usr ORDER BY p.k DESC LIMIT 2) x
WHERE u.usr < 'u15'
ORDER BY u.usr, x.k
;;
SELECT u.usr, x.c, x.top
FROM users u LEFT JOIN LATERAL (SELECT count(*) AS c, max(v) AS top FROM events e WHERE e.usr = u.usr AND e.kind = 'view') x ON x.c > 4
ORDER BY u.usr
;;
WITH w AS (SELECT usr, count(*) AS c, sum(n) AS s FROM plays GROUP BY usr)
SELECT a.usr, a.c, b.s FROM w a JOIN w b ON a.usr = b.usr WHERE a.usr > 'u5' AND b.s IS NOT NULL AND a.c < 12 ORDER BY a.usr
;;
WITH w AS MATERIALIZED (SELECT k, usr, n FROM plays WHERE n IS NOT NULL)
SELECT 'low' AS part, k, n FROM w WHERE k < 5
UNION ALL
SELECT 'u7', k, n FROM w WHERE usr = 'u7'
ORDER BY part, k
;;
WITH RECURSIVE chain(k, step) AS (
    SELECT k, 0 FROM plays WHERE k = 3
    UNION ALL
    SELECT p.k, c.step + 1 FROM chain c JOIN plays p ON p.k = c.k * 2
)
SELECT * FROM chain ORDER BY step
;;
WITH RECURSIVE reach AS (
    SELECT 's4' AS song
    UNION
    SELECT b.song FROM reach r JOIN plays a ON a.song = r.song JOIN plays b ON b.usr = a.usr AND b.k = a.k + 1 WHERE b.song IS NOT NULL
)
SELECT song FROM reach ORDER BY song
;;
SELECT usr, c FROM (SELECT usr, count(*) AS c, max(n) AS m FROM plays GROUP BY usr) WHERE usr IN ('u1', 'u2', 'u99') AND c > 1 AND m > 0 ORDER BY usr
;;
SELECT k, c FROM (SELECT k, count(*) AS c FROM plays GROUP BY k) WHERE k = '17' AND c = 1.0
;;
SELECT * FROM (SELECT usr, kind, count(*) AS c FROM events GROUP BY CUBE (usr, kind)) WHERE usr = 'u3' OR (usr IS NULL AND kind = 'buy') ORDER BY ALL
;;
SELECT * FROM (SELECT usr, count(*) AS c FROM events GROUP BY ROLLUP (usr)) t WHERE usr IS NULL
;;
SELECT * FROM (SELECT DISTINCT ON (usr) usr, k, n FROM plays ORDER BY usr, k DESC) WHERE k < 180 ORDER BY usr NULLS FIRST
;;
SELECT k, n FROM (SELECT DISTINCT ON (usr) usr, k, n FROM plays ORDER BY usr, k) AS d WHERE usr = 'u11' OR n < 0 ORDER BY k
;;
SELECT usr, k, rn FROM (SELECT usr, k, row_number() OVER (PARTITION BY usr ORDER BY k) AS rn FROM plays) WHERE usr = 'u2' AND k > 50 ORDER BY rn
;;
SELECT k, prev FROM (SELECT k, lag(k) OVER (ORDER BY k) AS prev FROM plays) WHERE k IN (0, 1, 77) ORDER BY k
;;
SELECT usr, "at", r
FROM (SELECT usr, "at", kind, rank() OVER (PARTITION BY usr ORDER BY v DESC NULLS LAST, "at") AS r FROM events)
WHERE usr <> 'u0' AND kind = 'click' AND r = 1
ORDER BY usr, "at"
;;
SELECT k, c FROM (SELECT k, count(*) OVER () AS c FROM plays) WHERE k = 100
;;
SELECT k, usr, sum(n) OVER (PARTITION BY usr ORDER BY k) AS run FROM plays WHERE k < 60 QUALIFY usr = 'u5' AND run IS NOT NULL ORDER BY k
;;
SELECT * FROM (SELECT 'p' AS src, k AS key FROM plays UNION ALL SELECT 'n', id FROM nums UNION ALL SELECT 'e', id FROM empty) u
WHERE src <> 'p' AND key > 42 OR src = 'p' AND key = '5'
ORDER BY ALL
;;
SELECT key, typeof(key) AS t, count(*) AS c FROM (SELECT id AS key FROM nums UNION ALL SELECT k FROM plays UNION ALL SELECT 44.5) WHERE key >= 44 AND key < 46 GROUP BY ALL ORDER BY ALL
;;
SELECT * FROM (SELECT usr, 1 AS one FROM users UNION SELECT usr, 1 FROM events UNION SELECT usr, 2 FROM plays) WHERE one = 1 AND usr BETWEEN 'u2' AND 'u22' ORDER BY usr
;;
SELECT k FROM (SELECT k FROM plays ORDER BY k LIMIT 10) WHERE k >= 8 OR k = 150 ORDER BY k
;;
SELECT k, usr FROM (FROM plays ORDER BY k DESC LIMIT 20 OFFSET 5) WHERE usr > 'u1' AND k % 2 = 0 ORDER BY k
;;
SELECT count(*) FROM plays WHERE k IN (SELECT id FROM nums ORDER BY id DESC LIMIT 5 OFFSET 2)
;;
SELECT k FROM plays WHERE k < 50 EXCEPT SELECT id FROM nums ORDER BY k
;;
(SELECT k FROM plays WHERE k > 40) INTERSECT (SELECT id FROM nums WHERE id <> 43) ORDER BY 1
;;
SELECT usr FROM events INTERSECT ALL SELECT usr FROM plays WHERE k < 25 ORDER BY usr
;;
SELECT k, n FROM plays WHERE k < 5 EXCEPT SELECT id FROM nums
;;
SELECT count(DISTINCT k), count(DISTINCT k % 7), count(DISTINCT usr) FILTER (WHERE k < 10), sum(DISTINCT n) FROM plays WHERE usr > 'u1' OR usr IS NULL
;;
SELECT song, list(k ORDER BY k) FILTER (WHERE n > 0) AS ks, avg(n) AS mean, bool_or(k = 5) AS has5 FROM plays WHERE song IN ('s1', 's2', 's3') GROUP BY song ORDER BY song
;;
SELECT k, count(*) FROM plays WHERE count(*) > 1 GROUP BY k
;;
SELECT k FROM plays WHERE k = (SELECT id, b FROM nums WHERE id = 5)
;;
SELECT date_trunc('day', "at") AS "at", count(*) AS c FROM events WHERE "at" < '2024-05-03 12:00' AND usr NOT IN ('u1', 'u2') GROUP BY ALL ORDER BY 1
;;
SELECT usr, "at" FROM events WHERE "at" = 'yesterday noon' AND usr = 'u1'
;;
SELECT e.usr, e."at", n.id
FROM events e /* two conditions on each key */ JOIN nums n ON n.id = e.usr[2:]::INTEGER AND n.id::VARCHAR <> '7'
WHERE e."at" BETWEEN '2024-05-06' AND TIMESTAMP '2024-05-06 06:00:00' AND n.id <= 9.5
ORDER BY e.usr, e."at"
;;
SELECT p.k, f.tags[1] AS t
FROM plays p JOIN plays f ON f.s = p.s AND f.tags = p.tags AND f.k > p.k
WHERE p.k < 120 OR f.k = 199
ORDER BY p.k, f.k
;;
SELECT b::VARCHAR || '/' || id AS "Key", tz > DATE '2024-05-05' AS late FROM nums WHERE "ID" >= 40.0 AND (l[1] = id OR id = 42 OR list_contains(l, id - 40)) ORDER BY id
;;
SELECT k FROM plays WHERE k = 10 / 4 OR k = 10 / 5 OR k = round(7.4) OR k > 198.5 OR k = 5::FLOAT + 0.2
;;
SELECT k FROM plays WHERE k = '5' || '0'
;;
SELECT k FROM plays WHERE k IN (1, '2', 3.0) OR k IN ('7', '8')
;;
SELECT k FROM plays WHERE k IN (1, 2.5::DOUBLE, 3::TINYINT, NULL)
;;
SELECT usr FROM users WHERE usr IN ('u1', 5::VARCHAR, NULL, 'u' || 7)
;;
SELECT k FROM plays WHERE k BETWEEN '3' AND '5' OR k BETWEEN 7 AND 8.5 OR k BETWEEN '10' AND 11.5 OR k BETWEEN 197.5 AND 1e10
;;
SELECT k FROM plays WHERE k BETWEEN '3' AND '20'
;;
SELECT k FROM plays WHERE k BETWEEN 16777217::FLOAT AND 3 OR k < 2::FLOAT
;;
SELECT id, a FROM nums WHERE a >= 4611686018427387905::DOUBLE
;;
SELECT id, a FROM nums WHERE a > 4611686018427387903::DOUBLE OR a <= -4611686018427387905::DOUBLE
;;
SELECT id, a FROM nums WHERE a IN (4611686018427387905::DOUBLE, 1) OR a = 4611686018427387904.0 OR a = -4611686018427387904.4
;;
SELECT id, a FROM nums WHERE a >= 4611686018427387904.5 OR a BETWEEN -4611686018427387905.5 AND -4611686018427387903.5
;;
SELECT id FROM nums WHERE f = 0.1 OR f BETWEEN 0.5 AND 1::DOUBLE OR f > 4.9::DECIMAL(3,1) OR f IN (1, 2.5)
;;
SELECT id FROM nums WHERE id < 2147483647 + 1
;;
SELECT id FROM nums WHERE id = 3000000000 - 2999999999
;;
SELECT id FROM nums WHERE id = 1 / 0 OR id > 43
;;
SELECT id FROM nums WHERE id = 'abc'
;;
SELECT id FROM nums WHERE id = 'abc' AND false
;;
SELECT id FROM nums WHERE id IN ('1', 'x') AND id > 1000
;;
SELECT id FROM nums WHERE b = 256 OR b = 1::TINYINT - 2::TINYINT OR b BETWEEN -5 AND 10 OR b > 254.5 OR b IN (300, 20)
;;
SELECT k FROM plays WHERE day >= '2024-05-05 12:00' AND day < DATE '2024-05-07' + 1
;;
SELECT k FROM plays WHERE day IN ('2024-05-03', DATE '2024-05-04', TIMESTAMP '2024-05-05 12:00')
;;
SELECT k FROM plays WHERE day BETWEEN '2024-05-03' AND TIMESTAMP '2024-05-04 23:00:00'
;;
SELECT k FROM plays WHERE day BETWEEN '2024-05-03 10:00' AND TIMESTAMP '2024-05-05'
;;
SELECT k FROM plays WHERE day > '2024-05-03'::TIMESTAMPTZ AND day < 'infinity'
;;
SELECT k FROM plays WHERE "at" > '2024-05-05'::DATE + 1 AND "at" < '2024-05-07 00:00:01'
;;
SELECT k FROM plays WHERE "at" BETWEEN DATE '2024-05-05' AND '2024-05-05'
;;
SELECT k FROM plays WHERE "at" = '2024-05-05' || ' 00:00'
;;
SELECT k FROM plays WHERE price IN (10, 33.333, '45.67') OR price BETWEEN 10 AND 20.555 OR price = 10 / 3 OR price > 999.994 OR price < 1e1
;;
SELECT k FROM plays WHERE price > '990' AND price <= '999.9'
;;
SELECT k FROM plays WHERE price > '990.555'
;;
SELECT k FROM plays WHERE price = 12345678901234567890.12 OR price < 0.004
;;
SELECT k FROM plays WHERE score > '8.5' OR score IN ('1', 2) OR score BETWEEN '-9' AND -8.5
;;
SELECT k FROM plays WHERE ok > false AND k < 20 OR ok = 'f' AND k > 190 OR ok IN (true) AND k = 100
;;
SELECT v.k, p.usr FROM plays p JOIN (VALUES (1), (1), (5), (NULL), (900)) v(k) USING (k)
;;
SELECT v.x, p.k FROM (VALUES (1), (1), (5.5), (NULL), (900)) v(x) LEFT JOIN plays p ON p.k = v.x
;;
SELECT v.x, p.k FROM (VALUES ('1'), ('05')) v(x) LEFT JOIN plays p ON p.k = v.x::INT
;;
SELECT v.u, e.kind, v.t FROM (VALUES ('u1', TIMESTAMP '2024-05-05'), ('u3', NULL), (NULL, '2024-05-02')) v(u, t) JOIN events e ON e.usr = v.u AND e."at" > v.t
;;
SELECT k, usr FROM plays WHERE k IN (5, 5, 3, 77) ORDER BY k DESC LIMIT 2
;;
SELECT k, k FROM plays WHERE k = 5
;;
SELECT k + 1, usr, usr AS u FROM plays WHERE k = 5 LIMIT 1
;;
SELECT k FROM plays WHERE k = 5 LIMIT 0
;;
SELECT k FROM plays WHERE k = 5 OFFSET 1
;;
SELECT DISTINCT ok FROM plays WHERE k IN (1, 2, 3, 4, 5, 6, 7, 8)
;;
SELECT * EXCLUDE (tags, m, s, raw) FROM plays WHERE k = 5 AND usr IS NOT NULL AND n > -100
;;
SELECT count(*), max(usr) FROM plays WHERE k = 5
;;
SELECT usr, "at" FROM events WHERE usr >= 'u3' ORDER BY usr, "at" LIMIT 5 OFFSET 2
;;
SELECT usr, "at" FROM events WHERE usr <= 'u3' ORDER BY usr DESC, "at" DESC LIMIT 5
;;
SELECT usr, "at" FROM events WHERE usr BETWEEN 'u2' AND 'u4' ORDER BY usr DESC, "at" LIMIT 5
;;
SELECT usr, "at" FROM events WHERE usr > 'u5' OR (usr = 'u5' AND "at" > '2024-05-06') ORDER BY usr, "at" LIMIT 6
;;
SELECT usr, "at" FROM events WHERE usr > 'u5' OR (usr = 'u5' AND "at" > NULL) ORDER BY usr, "at" LIMIT 3
;;
SELECT usr, "at" FROM events WHERE usr < 'u5' OR (usr = 'u5' AND "at" < '2024-05-06') ORDER BY usr DESC, "at" DESC LIMIT 6
;;
SELECT usr, "at" FROM events WHERE (usr, "at") > ('u5', TIMESTAMP '2024-05-06') AND usr < 'u7' AND v > 50 ORDER BY usr, "at" LIMIT 4
;;
SELECT usr, "at" FROM events WHERE ("at", usr) > (TIMESTAMP '2024-05-09', 'u5') ORDER BY "at", usr LIMIT 6
;;
SELECT usr, "at" FROM events WHERE (usr, "at") >= (SELECT 'u5', TIMESTAMP '2024-05-06') AND usr < 'u6'
;;
SELECT usr, "at" FROM events WHERE NOT ((usr, "at") <= ('u8', TIMESTAMP '2024-05-08'))
;;
SELECT usr, "at" FROM events WHERE (usr, kind) IN (('u3', 'buy'), ('u4', NULL), (NULL, 'view'))
;;
SELECT usr, "at" FROM events WHERE (usr, "at") IN (SELECT usr, max("at") FROM events WHERE usr IN ('u1', 'u2') GROUP BY usr)
;;
SELECT usr, "at" FROM events WHERE usr = 'u3' AND kind IS NULL ORDER BY "at" LIMIT 3
;;
SELECT usr, "at" FROM events WHERE usr = 'u3' AND "at" IN ('2024-05-05', TIMESTAMP '2024-05-06') OR usr = 'u4' AND "at" < '2024-05-02'
;;
SELECT usr, count(*) FROM events WHERE usr LIKE 'u1%' AND usr NOT IN ('u1', 'u11') GROUP BY usr
;;
SELECT usr FROM users WHERE usr LIKE 'u1' OR usr LIKE '' OR usr LIKE '%' AND rank = 3 OR usr LIKE 'u2\%' OR usr LIKE 'u_'
;;
SELECT usr FROM users WHERE usr LIKE 'u1%' || '5' OR usr LIKE NULL OR usr LIKE usr AND rank = 1
;;
SELECT usr FROM users WHERE starts_with(usr, '') AND usr > 'u3' AND contains(usr, '5') OR suffix(usr, '24')
;;
SELECT usr FROM users WHERE substr(usr, 1, 2) = 'u1' AND left(usr, 3) <> 'u11' AND usr[:1] = 'u'
;;
SELECT usr FROM users WHERE usr >= 'u' || chr(50) AND usr < 'v'
;;
SELECT usr FROM users WHERE usr > 'ü' OR usr = 'u1' || chr(0) OR usr < chr(0)
;;
SELECT p.k, e.usr FROM plays p JOIN events e ON p.usr = e.usr WHERE p.usr = 'u3' AND e.usr = 'u4'
;;
SELECT p.k, e.v FROM plays p JOIN events e ON p.usr = e.usr AND e.usr IN ('u3', 'u4') WHERE p.k IN (SELECT id FROM nums WHERE id BETWEEN 10 AND 20) AND e.v > 50
;;
SELECT n.id FROM nums n WHERE n.id IN (SELECT k FROM plays WHERE usr = 'u3') AND n.id IN (SELECT b FROM nums)
;;
SELECT n.id, p.k FROM nums n LEFT JOIN plays p ON p.k = n.id AND p.k < 10 AND n.id > 5 WHERE n.id BETWEEN 3 AND 12
;;
SELECT n.id, p.k FROM nums n RIGHT JOIN plays p ON p.k = n.id AND p.k < 10 AND n.id > 5 WHERE p.k BETWEEN 3 AND 12
;;
SELECT id, k FROM nums FULL JOIN plays ON k = id AND k > 40 WHERE coalesce(id, 0) > 40 OR k < 3
;;
SELECT k FROM plays WHERE k = (SELECT 5) OR k = (SELECT max(id) FROM nums) OR k IN (SELECT id FROM nums WHERE id = 7)
;;
SELECT k FROM plays WHERE k > (SELECT max(k) - 3 FROM plays) OR k < (SELECT min(b) FROM nums WHERE b > 3)
;;
SELECT k FROM plays WHERE CASE WHEN k = 3 THEN true WHEN k > 195 THEN n > 0 ELSE false END
;;
SELECT k FROM plays WHERE if(k < 3, k = 2, k = 100) OR ifnull(nullif(k, 50), 50) = 50
;;
SELECT k FROM plays WHERE (k = 3) IS NOT DISTINCT FROM true OR (k = 4)::INT = 1 OR (k = 5) > false
;;
SELECT k FROM plays WHERE NOT (k <> 3) OR NOT (k > 1 OR k < 1) OR NOT NOT k = 9
;;
SELECT k FROM plays WHERE k = k AND k = 3 OR k + 0 = 4 OR 5 = k * 1 OR k - 6 = 0
;;
SELECT k FROM plays WHERE k = 3 = true
;;
SELECT k FROM plays WHERE k IN (3, n) AND k < 50 OR n IN (k, 3) AND k < 20
;;
SELECT k FROM plays WHERE 3 IN (k, n) OR NULL IN (k) OR 7 BETWEEN k AND k + 1 OR k BETWEEN n AND n + 3
;;
SELECT usr, "at", kind FROM events WHERE ROW(usr, "at") < ROW('u2', TIMESTAMP '2024-05-05') ORDER BY usr DESC, "at" DESC LIMIT 20
;;
SELECT k FROM plays WHERE row(n, k) <= (3, 40) AND ROW(k, n) >= (5, 0) ORDER BY n, k LIMIT 9
;;
SELECT count(*) FROM plays WHERE ROW(k, n) < ANY(SELECT k, n + 1 FROM plays WHERE k < 50) AND NOT ROW(usr, song) < ALL(SELECT usr, song FROM plays)
;;
SELECT {'x': k, 'y': usr}::ROW(x INTEGER, y VARCHAR) AS r, ROW(ROW(k, 1), n) < ROW((7, 0), 1) FROM plays WHERE k < 9
