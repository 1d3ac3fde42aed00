select date_trunc('week', day) as wk, date_trunc('hour', max("at")) as h, count(*) as c from plays group by 1 order by 1 NULLS FIRST
;;
select k, date_part('hour', "at") as h, date_part('dow', "at") d, date_part('isodow', day) id, extract(epoch from day) ep
from plays where k between 10 and '30' order by k
;;
SELECT date_part(['year', 'month', 'doy'], day) AS parts, count(*) FROM "plays" GROUP BY ALL ORDER BY 2 DESC, 1 NULLS LAST
;;
SELECT usr, date_diff('hour', min("at"), max("at")) AS diff, date_sub('hour', min("at"), max("at")) AS sub, datediff('day', min("at"), max("at")) - datesub('day', min("at"), max("at")) AS crossing
	  FROM
	 events GROUP BY usr ORDER BY usr
;;
SELECT usr, age(DATE '2024-05-01', born) AS how_old, extract(year FROM age(DATE '2024-05-01', born)) AS y FROM users /* only some; not 'all' */ WHERE born IS NOT NULL ORDER BY born, usr
;;
SELECT u.country, avg(date_diff('year', u.born, DATE '2024-12-31')) AS a, min(date_sub('month', u.born, DATE '2024-02-29')) AS m FROM users AS u GROUP BY u.country -- it's ordered; by "k"
 ORDER BY ALL
;;
select make_date(2024, 1 + id % 12, 1 + id % 28) as d, count(*)
from Nums
where id >= 0
group by d having count(*) >= 1
order by d LIMIT 20
;;
select id, try_cast(make_time(id % 24, b % 60, 0.5) as VARCHAR) as t from nums where id between 0 and 15 order by id
;;
SELECT k, strptime(strftime("at", '%Y-%m-%d %H:%M:%S.%f'), '%Y-%m-%d %H:%M:%S.%f') = "at" AS same FROM plays WHERE "at" IS NOT NULL AND NOT same
;;
SELECT try_strptime(usr || '/05/2024', 'u%d/%m/%Y') AS d, list(usr ORDER BY usr) AS who FROM users GROUP BY d ORDER BY d NULLS LAST
;;
SELECT strptime(usr, 'u%d') FROM users WHERE usr < 'u2' ORDER BY usr
;;
SELECT id, tz AT TIME ZONE 'Europe/Berlin' AS berlin, (tz AT TIME ZONE 'America/New_York')::DATE AS ny_day
FROM "nums"
WHERE id > 30
ORDER BY id
;;
SELECT ("at" AT TIME ZONE 'Asia/Tokyo') AT TIME ZONE 'UTC' AS shifted, "at", usr FROM events WHERE usr = 'u3' ORDER BY "at"
;;
SELECT p.k, n.id FROM plays p JOIN nums n ON p."at"::DATE = (n.tz AT TIME ZONE 'Pacific/Auckland')::DATE AND p.k % 45 = n.id WHERE p.k < 90 ORDER BY 1, 2
;;
select time_bucket(interval '6 hours', "at") as slot, count(*) as c, sum(v) IS NULL as nothing
	  from
	 events group by slot order by slot DESC LIMIT 12
;;
SELECT time_bucket(INTERVAL 3 DAY, day, DATE '2024-05-02') AS b, min(day), max(day), count(*) FROM plays GROUP BY b ORDER BY b
;;
SELECT time_bucket('90 minutes'::INTERVAL, "at", INTERVAL '10 minutes') AS b, max(kind)
FROM events
WHERE usr IN ('u0', 'u1')
GROUP BY b
ORDER BY b
;;
SELECT usr, "at", "at" - lag("at") OVER w AS gap, "at" - lag("at") OVER w > INTERVAL '12 hours' AS long_gap FROM events /* only some; not 'all' */ WHERE usr LIKE 'u1%' WINDOW w AS (PARTITION BY usr ORDER BY "at") ORDER BY usr, "at"
;;
SELECT usr, max(gap) AS longest FROM (SELECT usr, "at" - lag("at") OVER (PARTITION BY usr ORDER BY "at") AS gap FROM events) GROUP BY usr HAVING max(gap) BETWEEN INTERVAL 1 DAY AND '3 days' ORDER BY longest DESC, usr
;;
SELECT INTERVAL '1 month' = INTERVAL '30 days' AS a, INTERVAL '24 hours' = INTERVAL '1 day' AS b, INTERVAL '1 year' > INTERVAL '360 days' AS c, INTERVAL '1 month' IS NOT DISTINCT FROM INTERVAL '720 hours' AS d
;;
SELECT count(DISTINCT i), min(i), max(i) FROM (SELECT CASE id % 3 WHEN 0 THEN INTERVAL 1 MONTH WHEN 1 THEN INTERVAL 30 DAY ELSE INTERVAL 720 HOUR END = INTERVAL 1 MONTH AS i FROM "nums")
;;
select day + interval 1 MONTH as next, typeof(day + interval 1 MONTH) as t, day + 1 as tomorrow, typeof(day - DATE '2024-05-01') as t2, count(*)
from plays
group by ALL
order by 1
;;
SELECT DATE '2024-01-31' + INTERVAL (id) MONTH AS d FROM Nums WHERE id BETWEEN -3 AND 3 -- it's ordered; by "k"
 ORDER BY id
;;
SELECT to_microseconds(sum(epoch_us("at" - TIMESTAMP '2024-05-01'))::BIGINT) AS total, max("at" - TIMESTAMP '2024-05-01') AS latest FROM events WHERE "at" < '2024-05-01 06:00'
;;
SELECT k FROM plays WHERE day = '2024-05-03' ORDER BY k
;;
SELECT k, day
	  FROM
	 plays WHERE '2024-05-03' < day AND day <= '2024-05-05 00:00:00' ORDER BY k DESC
;;
SELECT count(*)
FROM plays
WHERE "at" BETWEEN '2024-05-02' AND DATE '2024-05-04'
;;
SELECT count(*) FROM plays WHERE "at" > 'the day before'
;;
select usr, "at" from events where "at"::TIME between '11:30' and TIME '12:15:00' order by ALL
;;
SELECT k FROM "plays" WHERE CAST("at" AS TIME) >= '23:00:00' OR "at"::time < time '00:30' ORDER BY k
;;
SELECT usr, "at" FROM Events /* only some; not 'all' */ WHERE usr = 'u5' AND "at" >= '2024-05-03' AND "at" < '2024-05-06'::DATE + 1 ORDER BY "at"
;;
SELECT usr, "at", kind
FROM events
WHERE (usr, "at") > ('u20', TIMESTAMP '2024-05-04 12:00:00')
ORDER BY usr, "at"
;;
SELECT kind, epoch(max("at")) AS s, epoch_ms(max("at")) AS ms, epoch_us(min("at")) AS us, epoch_ns(min("at")) AS ns FROM events GROUP BY kind ORDER BY kind NULLS FIRST
;;
SELECT epoch_ms(1714521600000 + k * 3_600_000) AS t, k FROM plays WHERE k < 24 AND epoch_ms(1714521600000 + k * 3_600_000) > '2024-05-01 18:00' ORDER BY k
;;
SELECT make_timestamp(1714521600000000 + id * 1000000) AS t, to_timestamp(1714521600 + id) AS tz FROM nums WHERE id IN (-1, 0, 1) ORDER BY id
;;
select n.id, to_timestamp(epoch(n.tz)) = n.tz as round_trip from nums n where n.id % 10 = 0 order by n.id
;;
SELECT greatest(max(day), 'infinity'::DATE) AS g, least(min(day), '-infinity'::DATE) AS l, isinf('infinity'::DATE) AS i, isfinite(max(day)) AS f
FROM plays
;;
SELECT k, coalesce("at", 'infinity') AS a FROM plays WHERE k < 60 ORDER BY a DESC, k LIMIT 8
;;
SELECT count(*) FROM "events" WHERE "at" < TIMESTAMP 'infinity' AND "at" > '-infinity'
;;
SELECT date_trunc('month', TIMESTAMP 'infinity') AS a, date_part('year', TIMESTAMP 'infinity') AS b, 'infinity'::TIMESTAMP + INTERVAL 1 DAY AS c
;;
SELECT last_day(day) AS l, dayname(day) AS n, monthname(day) AS m, weekofyear(day) AS w, yearweek(day) yw, quarter(day) AS q, count(*) FROM plays GROUP BY ALL ORDER BY count(*), n
;;
SELECT century(born) AS c, decade(born) AS d, count(*) AS "how many", era(min(born))
FROM users
GROUP BY c, d
ORDER BY c NULLS LAST, d
;;
-- who has a birthday in the week of the plays
select u.usr, u.born, make_date(2024, month(u.born), day(u.born)) as birthday
from users u
where make_date(2024, month(u.born), day(u.born)) between (select min(day) from plays) - interval 30 DAYS and (select max(day) from plays) + interval 30 DAYS
order by birthday, usr
;;
SELECT g.d::DATE AS d, count(p.k) AS plays FROM generate_series(DATE '2024-04-29', DATE '2024-05-11', INTERVAL 1 DAY) AS g(d) LEFT JOIN plays p ON p.day = g.d GROUP BY g.d ORDER BY g.d
;;
SELECT r.range AS start, count(e.usr) FROM range(TIMESTAMP '2024-05-01', TIMESTAMP '2024-05-02', INTERVAL '4' HOUR) r LEFT JOIN events e ON e.at >= r.range AND e.at < r.range + INTERVAL '4' HOUR GROUP BY 1 ORDER BY 1
;;
SELECT k, "at"::DATE - day AS off_by, ("at"::DATE - day) * INTERVAL '1 day' AS i FROM plays WHERE abs("at"::DATE - day) >= 7 ORDER BY k
;;
SELECT p.k
FROM Plays p
JOIN plays q ON p.day = q."at" - INTERVAL '0 s'
WHERE p.k <> q.k
ORDER BY 1
;;
SELECT day AS d
	  FROM
	 plays WHERE k < 4 UNION ALL SELECT "at" FROM "events" WHERE usr = 'u2' AND "at" < '2024-05-03' ORDER BY d NULLS FIRST
;;
SELECT d, typeof(d) FROM (SELECT day AS d FROM plays WHERE k = 1 UNION SELECT tz FROM nums WHERE id = 7 UNION SELECT "at" FROM events WHERE usr = 'u4' AND "at" > '2024-05-08') ORDER BY d
;;
select typeof(case when ok then day else "at" end) as t, case when ok then day else "at" end as v, k from plays where k < 12 order by k
;;
SELECT date_trunc('fortnight', "at") FROM events
;;
select to_days(id) + to_hours(b::INT) as i, to_months(id) < to_days(id * 30 + 1) as less
from nums
where id between -2 and 5
order by id
;;
SELECT usr, "at" FROM events WHERE "at" IN ('2024-05-01', TIMESTAMP '2024-05-02 10:00:00') OR date_trunc('day', "at") = '2024-05-07' ORDER BY "at", usr
;;
SELECT usr, max("at") FILTER (WHERE kind = 'buy') - min("at") FILTER (WHERE kind = 'view') AS span, (max("at") FILTER (WHERE kind = 'buy') < min("at") FILTER (WHERE kind = 'view')) IS TRUE AS backwards FROM events GROUP BY usr ORDER BY usr
;;
SELECT to_seconds(86399.5)::VARCHAR AS s, (INTERVAL '1 day' * 2.5)::VARCHAR AS m, (INTERVAL '1 month' / 4)::VARCHAR AS q, -INTERVAL '2 hours 30 minutes' AS neg
;;
SELECT kind, date_trunc('minute', median("at")) AS mid, quantile_disc("at", 0.9) AS q, mode("at"::DATE) IS NOT NULL AS has FROM events GROUP BY kind ORDER BY kind
;;
select date_part('timezone_hour', tz) z, (tz AT TIME ZONE 'Asia/Kathmandu')::TIME as local, tz::DATE as d, id
from "nums"
where tz >= '2024-05-08 00:00:00+02'
order by id
;;
SELECT id FROM nums WHERE tz > TIMESTAMP '2024-05-07 12:00' AND tz < '2024-05-08T12:00:00-05:00' ORDER BY id
;;
SELECT n.id, e.usr
	  FROM
	 nums n JOIN events e ON date_trunc('hour', n.tz) = date_trunc('hour', e.at) ORDER BY 1, 2
;;
SELECT extract('millisecond' FROM "at") AS ms, extract(microsecond FROM "at") % 1000 AS us, extract(second FROM "at") s FROM plays WHERE usr = 'u7' ORDER BY "at", k
;;
SELECT "at"::TIMESTAMP_S AS s, "at"::TIMESTAMP_MS AS ms, "at"::TIMESTAMP_NS AS ns, "at"::TIMESTAMP_S = "at" AS eq FROM events WHERE usr = 'u9' ORDER BY "at" LIMIT 3
;;
SELECT usr, born
FROM users
WHERE born < '1970-1-1' OR born >= DATE '2000-01-01' OR born IS NULL
ORDER BY born NULLS FIRST, usr
;;
SELECT usr FROM Users WHERE born BETWEEN '1980-06-31' AND '1990-01-01'
;;
select try_cast('2024-02-30' as DATE) as a, try_cast('24:00:00' as TIME) as b, try_cast('1 fortnight' as interval) as c, try_cast('2024-05-01 25:00' as TIMESTAMP) as d, '10:00'::TIME + interval '15 hours' as e
;;
SELECT p.day, count(*) OVER (ORDER BY p.day RANGE BETWEEN INTERVAL 1 DAY PRECEDING AND CURRENT ROW) AS two_days, p.k FROM plays p WHERE p.day IS NOT NULL AND p.k < 50 ORDER BY p.k
;;
SELECT now() > max("at") AS later, current_date >= max("at")::DATE AS d, now() - now() = INTERVAL 0 SECONDS AS zero, typeof(now()) AS t FROM "events"
;;
SELECT DATE '0044-03-15 (BC)' AS ides, DATE '2024-05-01' - DATE '0044-03-15 (BC)' AS days, year(DATE '0044-03-15 (BC)') AS y
;;
SELECT e.usr, e.at, p.k, p."at" FROM events e ASOF JOIN plays p ON e.usr = p.usr AND e.at >= p."at" WHERE e.at::DATE = '2024-05-06' ORDER BY e.usr, e.at, p.k
;;
SELECT day::VARCHAR || ' ' || ("at"::TIME)::VARCHAR AS txt, (day + "at"::TIME) AS stamp FROM plays WHERE k IN (1, 2, 3, 4, 5, 6) ORDER BY k
;;
SELECT count(*) FILTER (WHERE "at"::VARCHAR > '2024-05-05') AS texts, count(*) FILTER (WHERE "at" > '2024-05-05') AS moments, count(*) FILTER (WHERE "at"::VARCHAR LIKE '2024-05-05%') AS likes
	  FROM
	 events
;;
select day from Plays where day = 20240503
;;
SELECT k
FROM plays
WHERE "at" = day
ORDER BY k
;;
SELECT ("at", "at" + INTERVAL '1 hour') OVERLAPS (TIMESTAMP '2024-05-02', TIMESTAMP '2024-05-03') FROM events
;;
SELECT a.usr, count(*) FROM events a JOIN events b ON a.usr = b.usr AND b.at > a.at AND b.at <= a.at + INTERVAL '2 hours' GROUP BY a.usr -- it's ordered; by "k"
 ORDER BY 2 DESC, 1
;;
SELECT usr, "at" FROM "events" WHERE "at" - INTERVAL '1 day' > '2024-05-08 06:00:00' ORDER BY "at"
;;
SELECT list_transform(range(DATE '2024-05-01', DATE '2024-05-05', INTERVAL 36 HOUR), lambda x: strftime(x, '%a %H')) AS l
;;
SELECT dayofweek(day) IN (0, 6) AS weekend, round(avg(price), 2) AS p, max(price) - min(price) AS r
FROM plays
GROUP BY weekend
ORDER BY weekend NULLS LAST
;;
select k, price * 1.19 as gross, typeof(price * 1.19) as t, round(price * 1.19, 2) as r, (price * 1.19)::DECIMAL(10, 2) as d from plays where k < 25 order by k
;;
select sum(price) as s, avg(price) as a, sum(price) / count(price) as q, sum(price)::DECIMAL(12, 1) as r, typeof(sum(price) * 0.5) as t from Plays
;;
SELECT 1.0 / 3 AS a, typeof(1.0 / 3) AS ta, 10.00::DECIMAL(6,2) * 3.333::DECIMAL(6,3) AS b, 0.1 + 0.2 = 0.3 AS c, 0.1e0 + 0.2e0 = 0.3e0 AS d, 5 / 2 AS e, 5 // 2 AS f, -5 // 2 AS g, -5 % 3 AS h
;;
SELECT k
	  FROM
	 plays WHERE price = 512.1 OR price > 990.005 OR price IN (1, 2.50, '3.5') ORDER BY k
;;
select round(price, -2) as hundreds, count(*) c, trunc(avg(price)) as m
from plays
group by hundreds
order by hundreds NULLS LAST
;;
SELECT id, round(id, -1) AS r, typeof(round(id, -1)) AS t, round(id / 10.0) AS d, round(id::DOUBLE / 10) AS e, ceil(id / 7) AS c, floor(id / 7) AS f, trunc(id / 7.0) AS tr FROM nums /* only some; not 'all' */ WHERE id % 5 = 0 ORDER BY id
;;
SELECT round_even(id / 2, 0) AS banker, round(id / 2, 0) AS school, id FROM "nums" WHERE id BETWEEN -5 AND 5 ORDER BY id
;;
select sum(a) as s, typeof(sum(a)) as t, sum(a) % 1000 as m, sum(a)::DOUBLE > 1e18 as big, sum(a)::HUGEINT * 4 as four from nums
;;
SELECT a + a FROM nums WHERE a > 4611686018427387903
;;
SELECT id, a::HUGEINT + a AS twice, a * 2::HUGEINT AS also
FROM Nums
WHERE abs(a) > 1_000
ORDER BY id
;;
select id, try(a + a) as t from nums where a IS not NULL order by t NULLS LAST, id
;;
SELECT TRY(b::UTINYINT + 200::UTINYINT) AS t, count(*) AS c FROM nums GROUP BY t ORDER BY t NULLS FIRST
;;
SELECT k, n / 0 AS a, try(n // 0) AS b, TRY(n % 0) AS c, score / 0 AS d, price / 0 AS e FROM plays WHERE k < 8 ORDER BY k
;;
select id, 1 / nullif(id, 0) as inv, try(100 // id) as i, try(100 % id) as m, try(fmod(100, id)) as fm from nums where id between -4 and 4 order by id
;;
select k, score
from plays
where score IS not NULL
order by score DESC, k LIMIT 5
;;
SELECT score, count(*) FROM "plays" WHERE score = 0 OR isnan(score) OR isinf(score) GROUP BY score ORDER BY score
;;
select count(*) from plays a join plays b on a.score = b.score where isnan(a.score) or a.score = -0.0
;;
SELECT 'NaN'::DOUBLE > 'inf'::DOUBLE AS a, 'nan'::FLOAT = 'nan'::FLOAT AS b, '-inf'::DOUBLE < -1.7e308 AS c, greatest('nan'::DOUBLE, 1) AS d, least('nan'::DOUBLE, 1) AS e, -('nan'::DOUBLE) AS f
;;
SELECT max(score) AS mx, min(score) AS mn, sum(score) AS s, avg(score) AS a, max(score) FILTER (WHERE NOT isnan(score)) AS finite FROM plays
;;
SELECT max(score) FILTER (score < 'inf') AS f, min(abs(score)) AS z, count(*) FILTER (WHERE score >= 'nan'::DOUBLE) AS n
FROM plays
;;
SELECT k FROM plays WHERE score > 8.5 ORDER BY k -- also NaN and infinity
;;
select k, signbit(score) as sb, sign(score) as s, score from plays where k in (17, 40, 63, 64) order by k
;;
select cast(score as INTEGER) from plays where k = 17
;;
SELECT TRY_CAST(score AS TINYINT) AS t, count(*) FROM plays GROUP BY 1 ORDER BY 1 NULLS FIRST
;;
SELECT id, a::SMALLINT AS s
FROM "nums"
WHERE abs(a) < 100
ORDER BY s, id
;;
select id, try_cast(a as SMALLINT) as s, try_cast(id as UTINYINT) as u, try_cast(b as TINYINT) as t
	  from
	 nums order by id
;;
SELECT 2.5::INT AS a, 3.5::INT AS b, -2.5::INT AS c, (-2.5)::INT AS d, 2.5e0::INT AS e, 3.5e0::INT AS f, '2.5'::INT AS g, 1e3::INT AS h, 'true'::BOOL::INT AS i
;;
SELECT '0xFF'::INT AS a, TRY_CAST('0b1010' AS INT) AS c, 1_000_000 AS d, 1_0.5_0 AS e, 1E-2 AS f, .5 AS g, 5. AS h
;;
select count(*) from plays where k >= 0x10 and k < 0x2_0
;;
SELECT b & 15 AS low, b >> 4 AS high, xor(b, 255) AS inv, b | 1 AS odd, bit_count(b) AS bits, ~id AS nt
FROM nums
WHERE id > 25
ORDER BY id
;;
SELECT id << 3 AS l, (id + 45) >> 2 AS r FROM nums WHERE id >= 0 -- it's ordered; by "k"
 ORDER BY id
;;
select id, 1::BIGINT << id as p, 1::BIGINT << id >> id as back from nums where id between 0 and 44 and id % 11 = 0 order by id
;;
SELECT b % 8 AS g, bit_and(a) AS x, bit_or(a) AS y, bit_xor(a) AS z, bit_xor(id) FROM nums GROUP BY g ORDER BY g NULLS FIRST
;;
SELECT 2 ** 10 AS a, 2 ^ 0.5 AS b, pow(2, -1) AS c, 10 ** -2 AS d, -2 ** 2 AS e, @ -5 AS f, 5! AS g, sqrt(16) AS h, cbrt(27) AS i
;;
select id, factorial(id)
from nums
where id between 0 and 33 and id % 3 = 0
order by id
;;
select k, try(sqrt(n)) as s, try(ln(n)) l, n from plays where k < 40 order by 2 DESC NULLS LAST, k
;;
SELECT greatest(n, k, price) AS g, typeof(greatest(n, k, price)) AS t, least(n, NULL, 3) AS l
	  FROM
	 plays WHERE k BETWEEN 5 AND 15 ORDER BY k
;;
select width_bucket(price, 0, 1000, 4) from plays
;;
SELECT equi_width_bins(0, 1000, 4, true) AS bins
;;
SELECT CASE WHEN price < 250 THEN '[0, 250)' WHEN price < 500 THEN '[250, 500)' WHEN price >= 500 THEN '500+' ELSE 'unknown' END AS bin, count(*), sum(n)
FROM plays
GROUP BY bin
ORDER BY bin
;;
SELECT floor(price / 100)::INT * 100 AS bucket, count(*) AS c, repeat('#', count(*)::INT) AS hist FROM plays WHERE price IS NOT NULL GROUP BY bucket ORDER BY bucket
;;
SELECT 99999999999999999999999999999999999999 AS a, typeof(99999999999999999999999999999999999999) AS t, 170141183460469231731687303715884105727::HUGEINT AS h, (-170141183460469231731687303715884105727)::HUGEINT < -1e38 AS e
;;
select 9223372036854775808 - 1 as a, typeof(9223372036854775808) as t, 18446744073709551615::UBIGINT as u, -9223372036854775808 as m
;;
select k from plays where k = 9223372036854775808 or k < 18446744073709551616 - 18446744073709551610 order by k
;;
SELECT k
FROM plays
WHERE k::UBIGINT < 3 OR k::HUGEINT = 199
ORDER BY 1
;;
SELECT price::DECIMAL(4, 1) AS p FROM plays WHERE price < 500 AND k % 9 = 0 ORDER BY k
;;
SELECT DECIMAL '12.345'::DECIMAL(4,2) AS a, 12.344::DECIMAL(4,2) AS b, '1e2'::DECIMAL(5,1) AS c, 1.005::DECIMAL(3,2) AS d, 1.005e0::DECIMAL(3,2) AS e, typeof(1.50 + 2) AS f, typeof(1.5 * 1.5) AS g
;;
SELECT sum(price * price * price) AS cubes
	  FROM
	 plays WHERE k < 100
;;
SELECT avg(price)::DECIMAL(10,4) AS a, stddev_pop(n)::DECIMAL(10,4) AS s, round(var_samp(n), 3) AS v, round(corr(n, k), 6) AS c FROM plays
;;
select f, round(f, 2) as r, f::DOUBLE = f as same, f = f::DECIMAL(18, 6) as dec, f::DOUBLE::VARCHAR = f::VARCHAR as txt
from Nums
where id between 1 and 6
order by id
;;
SELECT n.id FROM nums n WHERE n.f > 4.5 OR n.f < -4.75::DECIMAL(3,2) ORDER BY n.f NULLS LAST, n.id
;;
SELECT 0.1::FLOAT = 0.1 AS a, 0.1::FLOAT::DOUBLE = 0.1::DOUBLE AS b, 16777217::FLOAT = 16777217 AS c, 9007199254740993 = 9007199254740992::DOUBLE AS d
;;
select count(*) from nums where a = 4611686018427387904.0 or a = -4611686018427387904::DOUBLE or a >= 4.611686018427388e18
;;
SELECT bin(id) AS b, hex(id) AS h, to_base(abs(id), 36, 3) AS z FROM nums WHERE id IN (-1, 0, 1, 35, 44) ORDER BY id
;;
SELECT sum(CASE WHEN ok THEN price ELSE -price END) AS net, sum(CASE WHEN ok THEN 1 ELSE 0.5 END) AS w, typeof(sum(CASE WHEN ok THEN 1 ELSE 0.5 END)) AS t
FROM plays
;;
select id, a, a % 7 as m, a // 7 as q, (a // 7) * 7 + a % 7 = a as ok from nums where a IS not NULL order by id LIMIT 30
;;
select -a as neg, abs(a) as abs, sign(a) as sgn, a::VARCHAR as t, length(a::VARCHAR) as l from nums where abs(a) > 99 order by id
;;
SELECT k FROM Plays /* only some; not 'all' */ WHERE n = 'twelve'
;;
SELECT k, n
	  FROM
	 plays WHERE n = '12' OR n > ' 45 ' OR n < '-4_8' ORDER BY k
;;
SELECT CAST('  42 ' AS INT) AS a, TRY_CAST('4 2' AS INT) AS b, TRY_CAST('' AS INT) AS c, TRY_CAST('0x1F' AS INT) AS d, TRY_CAST('1e400' AS DOUBLE) AS e, TRY_CAST('Infinity' AS FLOAT) AS f, TRY_CAST('1,5' AS DECIMAL(3,1)) AS g, TRY_CAST('t' AS BOOLEAN) AS h, TRY_CAST('yes' AS BOOLEAN) AS i
;;
SELECT k, substr(usr, 2)::INT * 10 AS x, TRY_CAST(song AS INT) AS y, (substr(song, 2))::DECIMAL(5, 2) / 4 AS z FROM "plays" WHERE usr IS NOT NULL AND k % 25 = 3 ORDER BY k
;;
select round(123.456, 1) as a, round(123.456, -1) as b, round(-0.5) as c, round(0.5e0) as d, round(1234567, -3) as e, trunc(-1.9) as f, round(NULL, 1) as g, round(15, -1) as h, round(2.675, 2) as i
;;
SELECT k, ok IS TRUE AS t, ok IS NOT TRUE AS nt, ok IS FALSE AS f, ok IS UNKNOWN AS u, ok IS NOT UNKNOWN AS nu, NOT ok AS n FROM plays WHERE k < 20 ORDER BY k
;;
select count(*) from plays where n IS DISTINCT from 5 and usr IS not DISTINCT from NULL
;;
select a.k, b.k
from plays a
join plays b on a.usr IS not DISTINCT
from b.usr and a.n IS not DISTINCT
from b.n and a.k < b.k
order by 1, 2
;;
SELECT k FROM Plays WHERE n NOT IN (1, 2, NULL)
;;
SELECT usr FROM users WHERE usr NOT IN (SELECT usr FROM plays) ORDER BY usr
;;
select usr from users where usr not in (select p.usr from plays p where p.usr IS not NULL) order by usr
;;
SELECT u.usr, u.rank NOT IN (SELECT n FROM plays WHERE k < 40) AS x, u.rank IN (SELECT n FROM plays WHERE k < 40) AS y FROM users u ORDER BY u.usr
;;
SELECT id
FROM empty
WHERE id NOT IN (NULL) UNION ALL SELECT 1
WHERE 1 NOT IN (SELECT id
FROM empty) UNION ALL SELECT 2
WHERE NULL NOT IN (SELECT id
FROM empty)
ORDER BY 1
;;
select k, n from plays where n > ALL (select n from plays where n < 45) order by n, k
;;
SELECT count(*) FROM plays WHERE n > ALL (SELECT id FROM empty) -- true for all, NULLs too
;;
SELECT count(*), count(*) FILTER (WHERE k = ANY ([1, 5, NULL])) AS a, count(*) FILTER (WHERE (k <> ALL ([1, 5])) IS TRUE) AS b, count(*) FILTER (WHERE k < ANY (SELECT rank FROM users)) AS c FROM plays
;;
SELECT k FROM Plays WHERE 'a' = ANY(tags) AND NOT ('b' = ANY(tags)) ORDER BY k
;;
SELECT id, 3 = ANY (l) AS any3, 3 <> ALL (l) AS no3, 3 IN l AS in3, list_contains(l, NULL) AS lc
FROM nums
WHERE id < -25
ORDER BY id
;;
SELECT usr, "at" FROM events WHERE (usr, kind) IN (('u1', 'buy'), ('u2', 'view'), ('u3', NULL)) ORDER BY usr, "at"
;;
select k from plays where (usr, song) in (select q.usr, q.song from plays q where q.k > 150) and k < 100 order by k
;;
select k from plays where (k, n) not in (select k, n from plays where ok) and k < 30 order by k
;;
SELECT k FROM "plays" WHERE k BETWEEN SYMMETRIC 30 AND 20 ORDER BY k
;;
select k
from plays
where k not between least(195, 3) and greatest(195, 3)
order by k
;;
SELECT coalesce(ok, n > 0, false) AS c, ok OR n > 0 AS o, ok AND n > 0 AS a, count(*)
	  FROM
	 plays GROUP BY ALL ORDER BY ALL
;;
SELECT NULL AND false AS a, NULL OR true AS b, NOT NULL AS c, NULL = NULL AS d, (NULL IS NULL) = true AS e, NULL IN (NULL) AS f, 1 IN (1, NULL) AS g, 2 IN (1, NULL) AS h, NULL BETWEEN 1 AND 0 AS i, 5 BETWEEN NULL AND 1 AS j
;;
select bool_and(ok) as a, bool_or(ok) as o, max(ok) as mx, min(ok) as mn, sum(ok::INT) as s, count_if(not ok) as c, usr from plays group by usr order by usr NULLS LAST
;;
SELECT ok = 1 AS one, ok > false AS gt, ok = 'yes' AS txt, count(*) FROM plays GROUP BY ALL ORDER BY ALL
;;
select count(*)
from plays
where ok = 'maybe'
;;
select count(*) from plays where ok and
;;
SELECT k, ok + 1 FROM plays
;;
SELECT k FROM "plays" WHERE n ORDER BY k
;;
SELECT k, CASE n WHEN NULL THEN 'never' WHEN 0 THEN 'zero' ELSE 'other' END AS c, CASE WHEN n IS NULL THEN 'null' END AS d FROM plays WHERE n IS NULL OR n = 0 ORDER BY k
;;
SELECT if(ok, n, -n) AS x, iff(ok, 'y', 'n') AS z
FROM Plays
;;
SELECT if(ok, n, -n) AS x, ifnull(n, 0) AS y, coalesce(usr, '?') AS z, nullif(song, 's1') AS w FROM plays WHERE k < 15 ORDER BY k
;;
select k, (n, price) < (0, 500) as lt, (n, price) IS DISTINCT
	  from
	 (n, price) as d, (n, NULL) = (n, NULL) as e from plays where k % 20 = 0 order by k
;;
SELECT s IS NULL AS a, s.x IS NULL AS b, s = {'x': NULL, 'y': 'p'} AS c, count(*) FROM plays GROUP BY ALL ORDER BY ALL
;;
SELECT k FROM plays WHERE s = {'x': 3, 'y': 'q'} OR s > {'x': 8, 'y': 'p'} ORDER BY k
;;
select EXISTS (select 1
from empty) as e, not EXISTS (from empty) as ne, (select id
from empty) IS NULL as n, (select count(*)
from empty) = 0 as z
;;
SELECT u.usr FROM users u WHERE (SELECT bool_and(p.ok) FROM plays p WHERE p.usr = u.usr) IS NOT FALSE ORDER BY 1
;;
SELECT k FROM "plays" /* only some; not 'all' */ WHERE (n > 0) IS DISTINCT FROM ok AND k < 60 ORDER BY k
;;
select (n > 0) = ok as agree, xor((n > 0)::INT, ok::INT) as x, count(*) from Plays group by 1, 2 order by 1 NULLS FIRST, 2
;;
select k from plays where k in ('1', 2, 'three')
;;
SELECT k
FROM plays
WHERE k IN (1.0, 2.5, '7')
ORDER BY k
;;
select song from songs where len in (select b from nums) or len = ANY (select a from nums) order by song
;;
SELECT p.k, n.id FROM plays p JOIN nums n ON p.k = n.id WHERE p.price > 600.00 ORDER BY p.k
;;
SELECT p.k, n.id
	  FROM
	 plays p JOIN nums n ON p.k = n.f::INT AND p.n % 5 = n.id % 5 ORDER BY 1, 2
;;
select count(*) from plays p join users u on p.n = u.rank and substr(p.usr, 2)::BIGINT = u.rank
;;
SELECT p.k, u.usr
FROM plays p
JOIN users u ON 'u' || p.k = u.usr
ORDER BY p.k
;;
select p.k, e.id from "plays" p LEFT join empty e on p.k = e.id and e.v > 0 where e.id IS NULL and p.k < 3 order by 1
;;
select x, typeof(x) as t from (select b as x from nums where id = 1 UNION ALL select id from nums where id = 2 UNION ALL select f from nums where id = 3 UNION ALL select price from plays where k = 4) order by x
;;
SELECT x, typeof(x) FROM (SELECT k AS x FROM plays WHERE k < 2 UNION SELECT usr FROM users WHERE usr < 'u1') ORDER BY x
;;
SELECT k FROM plays WHERE k < 3 UNION SELECT ok FROM plays WHERE k < 10 ORDER BY 1
;;
select n as v
from plays
where n > 40 INTERSECT select b
from nums
order by v
;;
SELECT n::DOUBLE FROM plays WHERE k < 50 EXCEPT ALL SELECT id FROM nums WHERE id > 0 ORDER BY 1 NULLS FIRST
;;
SELECT coalesce(price, n, 0.5) AS c, typeof(coalesce(price, n, 0.5)) AS t FROM plays WHERE price IS NULL AND k < 80 ORDER BY k
;;
select coalesce(day, 'none') from plays
;;
SELECT COUNT(*)
	  FROM
	 "PLAYS" WHERE "Usr" = 'u1' AND NOT "OK" IS NULL
;;
SELECT
    /* tri-state */ CASE ok WHEN TRUE THEN 1 WHEN FALSE THEN 0 ELSE -1 END AS "State",
    count(*) AS "N of k"
FROM
    plays  -- all of them
GROUP BY
    "State"
HAVING "N of k" > 1
ORDER BY "State"
;;
select k from plays where k > 50 and k < 50
;;
SELECT k, n FROM plays WHERE k = 5 AND k = 6 OR k = 7 ORDER BY k
;;
SELECT sum(n), count(*) FROM plays WHERE k = 5 AND k <> 5
;;
SELECT k FROM plays WHERE k >= 10 AND k <= 10.0 AND k = '10'
;;
select k
from plays
where k > 9.5 and k < 12.5e0
order by k
;;
SELECT k FROM plays WHERE (k BETWEEN 3 AND 5 OR k BETWEEN 190 AND 300) AND NOT k IN (4, 192) ORDER BY k
;;
select k from Plays where not (k not between 18 and 22) and k != 20 order by k
;;
SELECT k FROM plays /* only some; not 'all' */ WHERE k + 1 = 8 OR 2 * k = 20 OR k - 3 > 193 OR -k = -15 ORDER BY k
;;
SELECT k FROM "plays" WHERE k / 2 = 10 OR k // 2 = 15 OR k % 100 = 42 ORDER BY k
;;
SELECT k
FROM plays
WHERE k::VARCHAR = '17' OR k::VARCHAR LIKE '19_'
ORDER BY k
;;
SELECT k FROM plays WHERE k::INTEGER = 33 AND CAST(k AS DOUBLE) < 33.5 AND k::TINYINT IS NOT NULL
;;
select k from plays where abs(k - 100) <= 2 order by k
;;
SELECT usr, count(*) FROM events WHERE usr LIKE 'u1%' GROUP BY usr ORDER BY usr
;;
SELECT usr, min("at") FROM events WHERE starts_with(usr, 'u2') OR usr ^@ 'u3' GROUP BY ALL ORDER BY ALL
;;
SELECT usr
FROM Users
WHERE usr LIKE 'u_' AND usr NOT LIKE '%5'
ORDER BY usr DESC
;;
SELECT usr FROM users WHERE usr ILIKE 'U1%' AND prefix(usr, 'u1') AND usr >= 'u15' ORDER BY usr
;;
SELECT usr FROM users WHERE left(usr, 2) = 'u2' OR usr[2:] = '7' OR substring(usr, 2, 1) BETWEEN '3' AND '4' ORDER BY usr
;;
SELECT usr FROM users WHERE usr > 'u9' OR usr < 'u0' OR usr = ''
;;
select usr, name from users where usr = upper('u3') or lower(usr) = 'u4' or usr = lower('U5') order by usr
;;
SELECT usr
FROM users
WHERE usr COLLATE NOCASE = 'U7'
;;
SELECT song
	  FROM
	 songs /* only some; not 'all' */ WHERE song IN ('s1', 's' || 2, concat('s', '3'), NULL, 'S4', format('s{}', 5)) ORDER BY song
;;
SELECT p.k, p.usr, u.country FROM plays p, users u WHERE p.usr = u.usr AND u.usr = 'u4' ORDER BY p.k
;;
SELECT p.k, e.at FROM Plays p JOIN users u USING (usr) JOIN events e ON e.usr = u.usr WHERE u.usr IN ('u2', 'u6') AND e.at < '2024-05-02' AND p.k < 100 ORDER BY p.k, e.at
;;
SELECT count(*) FROM users u LEFT JOIN events e ON e.usr = u.usr AND e.usr = 'u3' WHERE u.usr > 'u2'
;;
SELECT u.usr, e.at
FROM users u LEFT
JOIN events e ON e.usr = u.usr AND u.usr = 'u10' AND e.kind = 'buy'
WHERE u.usr LIKE 'u1_'
ORDER BY ALL
;;
select count(*) from events e1, events e2, plays p where e1.usr = e2.usr and e2.usr = p.usr and p.usr = 'u8' and e1.at = e2.at
;;
SELECT a.k FROM "plays" a JOIN plays b ON a.k = b.k + 1 JOIN plays c ON b.k = c.k + 1 WHERE c.k = 9
;;
select n.id, p.k from nums n FULL join plays p on n.id = p.k and p.k between 3 and 5 where coalesce(n.id, p.k) in (2, 4, 6) order by ALL
;;
SELECT id FROM nums WHERE id = '7' OR id > 43.5 OR id < -44::BIGINT OR id IN (0, 0.0, '-0') ORDER BY id
;;
SELECT id
FROM nums
WHERE id > 3000000000 OR id < -9223372036854775808
;;
SELECT count(*) FROM Nums WHERE id < 3_000_000_000 AND id > -1e10 AND id <= 'inf'::DOUBLE
;;
SELECT id
	  FROM
	 nums WHERE (id, b) > (40, 100) ORDER BY id
;;
select id from nums where id = (select max(rank) from users) or id = (select min(k) - 3 from plays) order by id
;;
select id from nums where id in (select k from plays where k % 11 = 0 and ok) order by id
;;
SELECT n.id, (SELECT count(*)
FROM plays p
WHERE p.k = n.id AND p.k >= 0) AS c, (SELECT max(p.k)
FROM plays p
WHERE p.k < n.id) AS below
FROM nums n
WHERE n.id BETWEEN -2 AND 2
ORDER BY n.id
;;
SELECT k FROM "plays" WHERE k IS NULL OR k IS DISTINCT FROM k OR k NOT IN (SELECT k FROM "plays")
;;
select k from plays where case when k < 5 then ok when k > 195 then not ok else false end order by k
;;
SELECT k FROM plays WHERE coalesce(k, 0) = 12 OR nullif(k, 13) IS NULL OR greatest(k, 14) = 14 AND k >= 13 ORDER BY k
;;
SELECT usr, "at" FROM Events WHERE usr = 'u11' AND "at" = (SELECT max("at") FROM Events WHERE usr = 'u11')
;;
select e.usr, e.at
from events e
where e.usr = 'u1' and date_trunc('day', e.at) in (DATE '2024-05-02', '2024-05-05')
order by 2
;;
SELECT usr, "at" FROM events WHERE (usr = 'u1' AND "at" < '2024-05-03') OR (usr = 'u2' AND "at" >= '2024-05-07') OR (usr > 'u8' AND "at"::TIME < '03:00') ORDER BY usr, "at"
;;
SELECT usr, max("at") FROM events WHERE usr <> 'u1' AND usr <> 'u2' AND usr NOT LIKE 'u1%' GROUP BY usr HAVING max("at") < TIMESTAMP '2024-05-09 12:00:00' ORDER BY max("at")
;;
SELECT t, id
	  FROM
	 empty WHERE id = 3 OR t LIKE 'x%' OR v / 0 > 1 OR t::INT = 4
;;
WITH w AS (SELECT k, usr, k % 2 = 0 AS even FROM plays WHERE k > 20), v AS (SELECT * FROM w WHERE k <= 40 AND even) SELECT usr, count(*) FROM v WHERE k <> 30 GROUP BY usr ORDER BY ALL
;;
SELECT k, rn
FROM (SELECT k, row_number() OVER (PARTITION BY usr
ORDER BY k) AS rn, usr
FROM "plays")
WHERE usr = 'u6' AND rn <= 3 AND k >= 10
ORDER BY k
;;
SELECT * FROM (SELECT k AS key, 'p' AS src FROM plays UNION ALL SELECT id, 'n' FROM nums) WHERE key = 12 OR key < -43 ORDER BY key, src
;;
select key, typeof(key) from (select usr as key from Users UNION ALL select song from songs UNION ALL select k::VARCHAR from Plays) where key >= 's3' and key < 'u1' order by key
;;
SELECT k FROM plays WHERE k = '1e1' OR k = '0x14'
;;
select usr from users where usr = 7
;;
SELECT usr
FROM users
WHERE usr > DATE '2024-01-01'
;;
SELECT k FROM plays WHERE k BETWEEN (SELECT 3) AND (SELECT min(k) + 5 FROM plays WHERE usr IS NOT NULL) ORDER BY k
;;
SELECT p.k, m.v FROM plays p JOIN (VALUES (1, 'one'), (2.0, 'two'), (150, 'many')) AS m(k, v) ON p.k = m.k -- it's ordered; by "k"
 ORDER BY p.k
;;
SELECT u.usr, x.lo, count(p.k) AS c FROM users u JOIN (VALUES ('u1', 0), ('u2', 100), ('u99', 5)) x(usr, lo) USING (usr) LEFT JOIN plays p ON p.usr = u.usr AND p.k >= x.lo GROUP BY ALL ORDER BY 1
;;
select min(k) as lo, max(k) as hi, count(*) c, sum(k) filter (k % 2 = 0) as evens
	  from
	 plays where usr in ('u1', 'u2') and k > 20 and song >= 's1' and day < '2024-05-06'
;;
SELECT DISTINCT ON (usr) usr, k, price
FROM Plays
WHERE usr SIMILAR TO 'u1[0-5]'
ORDER BY usr, price DESC NULLS LAST, k
;;
SELECT usr, regexp_extract(usr, '\d+')::INT AS nr FROM users WHERE regexp_matches(usr, '^u[12]?[13579]$') ORDER BY nr
;;
SELECT k FROM plays WHERE kk BETWEEN 1 AND 2
;;
SELECT usr, "at" FROM events WHERE "at" BETWEEN '2024-05-01'
;;
SELECT k AS a$1, b$2 + a$1 AS c$ FROM (SELECT k, n AS b$2 FROM plays WHERE k < 9) ORDER BY a$1
