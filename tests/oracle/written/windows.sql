select k, usr, n, sum(n) over (partition by usr order by k rows between unbounded preceding and current row) as running from plays order by k
;;
SELECT usr, "at", v, round(avg(v) OVER (PARTITION BY usr ORDER BY "at" ROWS BETWEEN 2 PRECEDING AND CURRENT ROW), 4) AS ma3
FROM events
ORDER BY usr, "at"
;;
-- latest play of every user
SELECT *
FROM plays
QUALIFY row_number() OVER (PARTITION BY usr ORDER BY "at" DESC NULLS LAST, k DESC) = 1
ORDER BY usr NULLS FIRST
;;
from events select usr, "at", kind, lag(kind) over (partition by usr order by "at") as before, lead(kind) over (partition by usr order by "at") as after order by all
;;
WITH gaps AS (
    SELECT usr, "at",
           CASE WHEN "at" - lag("at") OVER (PARTITION BY usr ORDER BY "at") > INTERVAL 12 HOUR
                  OR lag("at") OVER (PARTITION BY usr ORDER BY "at") IS NULL THEN 1 ELSE 0 END AS is_new
    FROM events
),
sessions AS (
    SELECT usr, "at", sum(is_new) OVER (PARTITION BY usr ORDER BY "at") AS session_id
    FROM gaps
)
SELECT usr, session_id, min("at") AS started, max("at") AS ended, count(*) AS hits, max("at") - min("at") AS lasted
FROM sessions
GROUP BY usr, session_id
ORDER BY usr, session_id
;;
select date_trunc('day', "at") as d, count(*) from events group by 1 order by 1
;;
SELECT day, sum(sum(n)) OVER (ORDER BY day) AS running_total
FROM plays
WHERE day IS NOT NULL
GROUP BY day
ORDER BY day
;;
SELECT id, a, b, sum(b) OVER (ORDER BY id RANGE BETWEEN 5 PRECEDING AND 5 FOLLOWING) AS near
FROM nums ORDER BY id
;;
SELECT usr, "at", count(*) OVER (PARTITION BY usr ORDER BY "at" RANGE BETWEEN INTERVAL 1 DAY PRECEDING AND CURRENT ROW) AS in_last_day
FROM events
ORDER BY usr, "at"
;;
SELECT k, n, sum(n) OVER (ORDER BY n GROUPS BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS s
FROM plays
ORDER BY k
;;
SELECT k, n, sum(n) OVER (ORDER BY k ROWS BETWEEN 2 PRECEDING AND 2 FOLLOWING EXCLUDE CURRENT ROW) AS others
FROM plays ORDER BY k
;;
SELECT k, day, count(*) OVER (ORDER BY day ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING EXCLUDE GROUP) AS not_my_day
FROM plays ORDER BY k
;;
SELECT k, day, sum(n) OVER (ORDER BY day RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW EXCLUDE TIES) - coalesce(n, 0) AS x
FROM plays
ORDER BY 1
;;
SELECT usr, "at", v,
       row_number() OVER w AS rn,
       first_value(v) OVER w AS fst,
       last_value(v) OVER w AS lst,
       nth_value(v, 2) OVER w AS snd
FROM events
WINDOW w AS (PARTITION BY usr ORDER BY "at")
ORDER BY usr, "at"
;;
SELECT k, usr, n,
       sum(n) OVER (w ORDER BY k) AS so_far,
       sum(n) OVER w AS all_of_it
FROM plays
WINDOW w AS (PARTITION BY usr)
ORDER BY k
;;
SELECT k, usr,
       count(*) OVER w2 AS c2,
       count(*) OVER w3 AS c3
FROM plays
WINDOW w1 AS (PARTITION BY usr),
       w2 AS (w1 ORDER BY k),
       w3 AS (w2 ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING)
ORDER BY k
;;
SELECT k FROM plays WHERE row_number() OVER (ORDER BY k) < 5
;;
SELECT kind, usr, "at", v
FROM events
QUALIFY rank() OVER (PARTITION BY kind ORDER BY v DESC NULLS LAST, usr, "at") <= 3
ORDER BY kind, v DESC NULLS LAST, usr, "at"
;;
select k, "at", last_value(n ignore nulls) over (order by k rows between unbounded preceding and current row) as filled from plays order by k
;;
SELECT k, n, lag(n, 1 IGNORE NULLS) OVER (ORDER BY k) AS prev_known, lead(n IGNORE NULLS) OVER (ORDER BY k) AS next_known
FROM plays
ORDER BY k
;;
SELECT k, lag(n, 3, -999) OVER (ORDER BY k) AS l3, lead(n, 2, n) OVER (ORDER BY k) AS l2 FROM plays ORDER BY k
;;
SELECT k, usr, lag(k, k % 3, 0::BIGINT) OVER (PARTITION BY usr ORDER BY k) AS moving_offset FROM plays ORDER BY k
;;
SELECT usr, ntile(4) OVER (ORDER BY usr) AS bucket, percent_rank() OVER (ORDER BY rank, usr) AS pr, cume_dist() OVER (ORDER BY rank) AS cd
FROM users
ORDER BY usr
;;
SELECT k, count(*) FILTER (WHERE ok) OVER (PARTITION BY usr ORDER BY k) AS oks,
       sum(price) FILTER (WHERE n > 0) OVER (PARTITION BY usr) AS paid
FROM plays
ORDER BY k
;;
SELECT k, count(DISTINCT song) OVER (PARTITION BY usr) AS songs_of_user, count(DISTINCT usr) OVER () AS users
FROM plays
ORDER BY k
;;
SELECT usr, "at", count(DISTINCT kind) OVER (PARTITION BY usr ORDER BY "at" ROWS BETWEEN 4 PRECEDING AND CURRENT ROW) AS kinds
FROM events
ORDER BY 1, 2
;;
/* cohort of the first event */
WITH firsts AS (
  SELECT usr, min("at")::DATE AS cohort FROM events GROUP BY usr
)
SELECT f.cohort, e."at"::DATE - f.cohort AS age_in_days, count(DISTINCT e.usr) AS active
FROM events e JOIN firsts f USING (usr)
GROUP BY ALL
ORDER BY ALL
;;
SELECT d.day, count(p.k) AS plays
FROM generate_series(DATE '2024-04-30', DATE '2024-05-11', INTERVAL 1 DAY) AS d(day)
LEFT JOIN plays p ON p.day = d.day
GROUP BY d.day
ORDER BY d.day
;;
SELECT r.h, coalesce(c.hits, 0) AS hits
FROM range(TIMESTAMP '2024-05-02', TIMESTAMP '2024-05-04', INTERVAL 1 HOUR) r(h)
LEFT JOIN (SELECT date_trunc('hour', "at") AS h, count(*) AS hits FROM events GROUP BY 1) c ON c.h = r.h
ORDER BY r.h
;;
SELECT p.k, p.usr, p."at", e."at" AS event_at, e.kind
FROM plays p ASOF JOIN events e ON p.usr = e.usr AND p."at" >= e."at"
ORDER BY p.k
;;
SELECT p.k, p."at", e."at", e.v
FROM plays p
ASOF LEFT JOIN events e ON p.usr = e.usr AND p."at" > e."at"
ORDER BY p.k
;;
select time_bucket(interval '6 hours', "at") as bucket, kind, count(*) as c from events group by bucket, kind order by bucket, kind nulls first
;;
SELECT usr, count(*) AS c, sum(count(*)) OVER () AS total, round(100.0 * count(*) / sum(count(*)) OVER (), 3) AS pct
FROM events
GROUP BY usr
ORDER BY usr
;;
SELECT date_trunc('day', "at") AS d, kind, grouping(date_trunc('day', "at")) AS gd, grouping(kind) AS gk, count(*) AS c
FROM events
GROUP BY ROLLUP (date_trunc('day', "at"), kind)
ORDER BY gd, gk, d, kind NULLS LAST
;;
SELECT day, ok, count(*) AS c, sum(n) AS s FROM plays GROUP BY CUBE (day, ok) ORDER BY grouping_id(day, ok), day NULLS FIRST, ok NULLS FIRST
;;
SELECT "at"::DATE AS d, usr, count(*) FROM events GROUP BY GROUPING SETS ((d), (usr), ()) ORDER BY ALL
;;
SELECT * FROM (
  SELECT *, dense_rank() OVER (PARTITION BY genre ORDER BY len DESC NULLS LAST, song) AS pos FROM songs
) WHERE pos <= 2 ORDER BY genre NULLS LAST, pos
;;
SELECT u.usr, u.country, p.k, p.n,
       rank() OVER (PARTITION BY u.country ORDER BY p.n DESC NULLS LAST, p.k) AS r
FROM plays p JOIN users u ON u.usr = p.usr
QUALIFY r <= 3
ORDER BY u.country NULLS FIRST, r
;;
SELECT arg_max(kind, "at") AS last_kind, arg_min(kind, "at") AS first_kind, usr
FROM events GROUP BY usr ORDER BY usr
;;
SELECT usr, first(v ORDER BY "at") AS f, last(v ORDER BY "at") AS l, list(kind ORDER BY "at") AS path
FROM events
GROUP BY usr
ORDER BY usr
;;
SELECT usr, string_agg(kind, '>' ORDER BY "at") AS path FROM events WHERE "at" < '2024-05-04' GROUP BY usr ORDER BY usr
;;
SELECT "at"::date AS d, quantile_cont(v, 0.5) AS med, quantile_disc(v, [0.1, 0.9]) AS tails FROM events GROUP BY d ORDER BY d
;;
SELECT k, "at", "at" AT TIME ZONE 'Europe/Istanbul' AT TIME ZONE 'UTC' AS utc FROM plays WHERE k < 25 ORDER BY k
;;
SELECT id, tz AT TIME ZONE 'America/New_York' AS ny, tz FROM nums ORDER BY id
;;
SELECT date_part('hour', "at") AS h, date_part('dow', "at") AS dow, count(*) AS c
FROM events
GROUP BY h, dow
HAVING count(*) > 1
ORDER BY h, dow
;;
SELECT k, age("at", TIMESTAMP '2024-05-01') AS since FROM plays ORDER BY k
;;
select usr, born, age(timestamp '2024-05-09', born::timestamp) as how_old, date_diff('year', born, date '2024-05-09') as yrs from users order by usr
;;
SELECT make_date(2024, 5, (abs(n) % 28) + 1) AS md, count(*) FROM plays GROUP BY 1 ORDER BY 1 NULLS LAST
;;
SELECT k, make_timestamp(year("at"), month("at"), day("at"), hour("at"), 0, 0.0) AS hour_of, date_trunc('hour', "at") AS same
FROM plays
WHERE k BETWEEN 10 AND 30
ORDER BY k
;;
SELECT strftime("at", '%Y-%m-%d %H') AS hr, count(*) AS c
FROM events
GROUP BY hr
ORDER BY c DESC, hr
LIMIT 10
;;
SELECT strptime(strftime(day, '%d/%m/%Y'), '%d/%m/%Y') AS back, day, count(*) FROM plays GROUP BY ALL ORDER BY ALL
;;
SELECT k, epoch("at") AS e, epoch_ms("at") AS ems, epoch_us("at") AS eus FROM plays ORDER BY k LIMIT 40
;;
SELECT usr, "at" FROM events WHERE "at" BETWEEN '2024-05-02' AND '2024-05-03 12:00:00' ORDER BY usr, "at"
;;
SELECT k FROM plays WHERE day = '2024-05-03' ORDER BY k
;;
SELECT k FROM plays WHERE "at" > DATE '2024-05-08' ORDER BY k
;;
SELECT id FROM nums WHERE tz < TIMESTAMPTZ '2024-05-03 00:00:00+02' ORDER BY id
;;
SELECT id, sum(b) OVER (PARTITION BY id % 7 ORDER BY tz, id ROWS 3 PRECEDING) AS s FROM nums ORDER BY id
;;
SELECT k, sum(n) OVER (ORDER BY k ROWS BETWEEN 1 FOLLOWING AND 1 PRECEDING) AS s FROM plays ORDER BY k
;;
SELECT k, sum(n) OVER (ORDER BY k ROWS BETWEEN UNBOUNDED FOLLOWING AND CURRENT ROW) AS s FROM plays ORDER BY k
;;
SELECT usr, rank() OVER nowhere AS r FROM users ORDER BY usr
;;
SELECT usr, "at", v
FROM events e
WHERE "at" = (SELECT max("at") FROM events i WHERE i.usr = e.usr)
ORDER BY usr
;;
SELECT u.usr, l."at", l.kind
FROM users u, LATERAL (SELECT "at", kind FROM events e WHERE e.usr = u.usr ORDER BY "at" DESC LIMIT 2) l
ORDER BY u.usr, l."at"
;;
SELECT u.usr, l.c, l.latest
FROM users u
LEFT JOIN LATERAL (SELECT count(*) AS c, max("at") AS latest FROM plays p WHERE p.usr = u.usr AND p."at"::DATE <= DATE '2024-05-05') l ON true
ORDER BY u.usr
;;
WITH daily AS (
    SELECT usr, "at"::DATE AS d FROM events GROUP BY 1, 2
), islands AS (
    SELECT usr, d, d - row_number() OVER (PARTITION BY usr ORDER BY d)::INTEGER AS grp FROM daily
)
SELECT usr, min(d) AS streak_start, max(d) AS streak_end, count(*) AS streak
FROM islands
GROUP BY usr, grp
ORDER BY streak DESC, usr, streak_start
LIMIT 25
;;
FROM plays
SELECT "usr", "day", count(*) AS "c", row_number() OVER (PARTITION BY "usr" ORDER BY count(*) DESC, "day" NULLS LAST) AS "rn"
WHERE "usr" IS NOT NULL
GROUP BY "usr", "day"
QUALIFY "rn" = 1
ORDER BY "usr"
;;
SELECT usr, "at", v, v - lag(v) OVER (PARTITION BY usr ORDER BY "at") AS delta
FROM events
WHERE usr = 'u7'
ORDER BY "at"
;;
SELECT * FROM (SELECT usr, "at", v, lag(v) OVER (PARTITION BY usr ORDER BY "at") AS pv FROM events) t WHERE usr IN ('u1', 'u2', 'u21') ORDER BY usr, "at"
;;
-- the filter must not go below the window
SELECT * FROM (SELECT k, usr, n, row_number() OVER (ORDER BY k) AS rn FROM plays) t WHERE usr = 'u3' ORDER BY k
;;
SELECT * FROM (SELECT k, usr, sum(n) OVER (PARTITION BY usr) AS tot, count(*) OVER (PARTITION BY song) AS c FROM plays) WHERE usr = 'u3' ORDER BY k
;;
SELECT k, s FROM (SELECT k, sum(n) OVER (ORDER BY k) AS s FROM plays) q WHERE k = 150
;;
SELECT k, s FROM (SELECT k, sum(n) OVER (PARTITION BY k) AS s FROM plays) q WHERE k IN (3, 77, 199, 1000) ORDER BY k
;;
SELECT id, max(a) OVER (PARTITION BY id ORDER BY tz) AS m FROM nums WHERE id BETWEEN -3 AND 3 ORDER BY id
;;
SELECT id, sum(a) OVER (ORDER BY id) AS huge FROM nums ORDER BY id
;;
SELECT id, sum(a) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING)::HUGEINT AS huge, avg(b) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS m
FROM nums
WHERE a IS NOT NULL
ORDER BY id DESC
;;
select  k ,
        price ,
        sum( price )   over ( order by  k   range between   10 preceding and    1 preceding )   as earlier
from    plays
order   by k
;;
SELECT k, price, sum(n) OVER (ORDER BY price RANGE BETWEEN 50.5 PRECEDING AND 50.5 FOLLOWING) AS near_price FROM plays WHERE price IS NOT NULL ORDER BY k
;;
SELECT k, score, count(*) OVER (ORDER BY score RANGE BETWEEN 0.5 PRECEDING AND 0.5 FOLLOWING) AS c FROM plays ORDER BY k
;;
SELECT k, score, rank() OVER (ORDER BY score) AS r, dense_rank() OVER (ORDER BY score DESC NULLS LAST) AS dr FROM plays ORDER BY k
;;
SELECT k, day, sum(n) OVER (ORDER BY day DESC RANGE BETWEEN INTERVAL 1 DAY PRECEDING AND INTERVAL 1 DAY FOLLOWING) AS around
FROM plays
ORDER BY k
;;
SELECT usr, "at", sum(1) OVER (PARTITION BY kind ORDER BY "at" RANGE BETWEEN '3 hours'::INTERVAL PRECEDING AND '30 minutes'::INTERVAL FOLLOWING) AS n_near
FROM events
ORDER BY usr, "at"
;;
SELECT usr, "at", count(*) OVER (ORDER BY "at" RANGE BETWEEN 3600 PRECEDING AND CURRENT ROW) FROM events ORDER BY usr, "at"
;;
SELECT usr, "at", sum(v) OVER (ORDER BY usr, "at" RANGE BETWEEN INTERVAL 1 DAY PRECEDING AND CURRENT ROW) FROM events ORDER BY usr, "at"
;;
SELECT k, sum(n) OVER (GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM plays ORDER BY k
;;
SELECT k, usr, sum(n) OVER (PARTITION BY usr ORDER BY day GROUPS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS rest FROM plays ORDER BY k
;;
SELECT k, count(*) OVER (ORDER BY usr GROUPS 2 PRECEDING) AS g FROM plays ORDER BY k
;;
SELECT k, usr, day, count(*) OVER (PARTITION BY usr ORDER BY day GROUPS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING EXCLUDE TIES) AS c
FROM plays ORDER BY k
;;
SELECT kind, v, avg(v) OVER (PARTITION BY kind) IS DISTINCT FROM v AS differs, usr, "at" FROM events ORDER BY usr, "at"
;;
WITH RECURSIVE days(d) AS (
  SELECT DATE '2024-05-01'
  UNION ALL
  SELECT d + 1 FROM days WHERE d < DATE '2024-05-09'
)
SELECT d, count(e.usr) AS hits, coalesce(max(e.v), 0) AS top
FROM days LEFT JOIN events e ON e."at" >= d AND e."at" < d + 1
GROUP BY d
ORDER BY d
;;
WITH cal AS (
  SELECT unnest(generate_series(DATE '2024-05-01', DATE '2024-05-09', INTERVAL '1 day'))::DATE AS d
),
per_day AS (
  SELECT c.d, u.country, count(p.k) AS plays
  FROM cal c
  CROSS JOIN (SELECT DISTINCT country FROM users WHERE country IS NOT NULL) u
  LEFT JOIN (SELECT p.k, p.day, uu.country FROM plays p JOIN users uu USING (usr)) p ON p.day = c.d AND p.country = u.country
  GROUP BY ALL
)
SELECT d, country, plays,
       sum(plays) OVER (PARTITION BY country ORDER BY d) AS cum,
       plays - lag(plays, 1, 0) OVER (PARTITION BY country ORDER BY d) AS change
FROM per_day
ORDER BY country, d
;;
WITH hourly AS (SELECT date_trunc('hour', "at") AS h, count(*) AS c FROM events GROUP BY 1)
SELECT h, c, max(c) OVER (ORDER BY h RANGE BETWEEN INTERVAL 3 HOURS PRECEDING AND INTERVAL 1 HOUR PRECEDING) AS prior_max
FROM hourly
QUALIFY c > coalesce(prior_max, 0)
ORDER BY h
;;
SELECT usr, min("at") AS first_at, max("at") AS last_at, max("at") - min("at") AS span, count(*) FILTER (kind = 'buy') AS buys
FROM events GROUP BY usr HAVING max("at") - min("at") > INTERVAL 7 DAYS ORDER BY usr
;;
SELECT usr, sum(n) AS total, rank() OVER (ORDER BY sum(n) DESC NULLS LAST) AS r FROM plays GROUP BY usr ORDER BY r, usr NULLS LAST
;;
SELECT country, count(*) AS users, sum(count(*)) OVER (ORDER BY count(*) DESC, country NULLS LAST ROWS UNBOUNDED PRECEDING) AS cum FROM users GROUP BY country ORDER BY cum
;;
SELECT day, usr, sum(n) AS s, sum(sum(n)) OVER (PARTITION BY usr ORDER BY day) AS cum, max(sum(n)) OVER (PARTITION BY day) AS best_of_day
FROM plays
WHERE usr IS NOT NULL AND day IS NOT NULL
GROUP BY day, usr
ORDER BY day, usr
;;
SELECT usr, row_number() OVER (ORDER BY count(*) DESC, usr) AS pos
FROM events
WHERE kind = 'buy'
GROUP BY usr
HAVING pos <= 5
;;
select usr, count(*) c from events group by usr having count(*) > avg(count(*)) over () order by usr
;;
select usr, count(*) c from events group by usr qualify count(*) > avg(count(*)) over () order by c desc, usr
;;
SELECT day, max(k) OVER (PARTITION BY day) FROM plays GROUP BY day ORDER BY day
;;
SELECT usr, "at", v FROM events QUALIFY v = max(v) OVER (PARTITION BY usr) ORDER BY usr, "at"
;;
SELECT DISTINCT usr, first_value(kind) OVER (PARTITION BY usr ORDER BY "at") AS first_kind FROM events ORDER BY usr
;;
SELECT DISTINCT ON (usr) usr, "at", kind FROM events ORDER BY usr, "at" DESC
;;
SELECT DISTINCT ON (day) day, k, n FROM plays WHERE day IS NOT NULL ORDER BY day, n DESC NULLS LAST, k
;;
SELECT usr, "at", nth_value(kind, 3) OVER (PARTITION BY usr ORDER BY "at" ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS third
FROM events ORDER BY usr, "at"
;;
SELECT usr, "at", nth_value(kind, 2 IGNORE NULLS) OVER (PARTITION BY usr ORDER BY "at") AS second_known FROM events ORDER BY usr, "at"
;;
SELECT k, first_value(song IGNORE NULLS) OVER (ORDER BY k ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS upcoming FROM plays ORDER BY k
;;
SELECT k, first_value(n) OVER (ORDER BY k ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING EXCLUDE CURRENT ROW) AS neighbour FROM plays ORDER BY k
;;
SELECT k, last_value(n RESPECT NULLS) OVER (PARTITION BY usr ORDER BY k) AS lv FROM plays ORDER BY k
;;
SELECT k, array_agg(n) OVER (PARTITION BY usr ORDER BY k ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS last3 FROM plays ORDER BY k
;;
SELECT k, list(song) FILTER (song IS NOT NULL) OVER (PARTITION BY usr ORDER BY k) AS heard FROM plays ORDER BY k LIMIT 60
;;
SELECT usr, "at", string_agg(kind, ',') OVER (PARTITION BY usr ORDER BY "at" ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS path FROM events ORDER BY usr, "at"
;;
SELECT k, bool_and(ok) OVER w AS every_ok, bool_or(ok) OVER w AS any_ok, count(ok) OVER w AS known
FROM plays WINDOW w AS (PARTITION BY usr, day) ORDER BY k
;;
SELECT usr, "at", arg_max(kind, v) OVER (PARTITION BY usr ORDER BY "at") AS kind_of_best FROM events ORDER BY usr, "at"
;;
SELECT k, median(n) OVER (ORDER BY k ROWS BETWEEN 5 PRECEDING AND 5 FOLLOWING) AS med, mode(usr) OVER (PARTITION BY usr) AS me FROM plays ORDER BY k
;;
SELECT k, quantile_cont(n, 0.25) OVER (PARTITION BY day) AS q1, quantile_disc(n, 0.75) OVER (PARTITION BY day) AS q3 FROM plays ORDER BY k
;;
SELECT k, round(stddev_samp(n) OVER (PARTITION BY usr), 6) AS sd, round(var_pop(n) OVER (ORDER BY k ROWS 9 PRECEDING), 6) AS vp FROM plays ORDER BY k
;;
SELECT k, max("at") OVER (PARTITION BY usr) - "at" AS before_last, min("at") OVER (PARTITION BY usr) = "at" AS is_first FROM plays ORDER BY k
;;
WITH marked AS (
  SELECT usr, "at", kind, v,
         lag("at") OVER w AS prev_at,
         coalesce(date_diff('minute', lag("at") OVER w, "at") > 360, true) AS fresh
  FROM events
  WINDOW w AS (PARTITION BY usr ORDER BY "at")
),
numbered AS (
  SELECT *, count(*) FILTER (fresh) OVER (PARTITION BY usr ORDER BY "at" ROWS UNBOUNDED PRECEDING) AS sess
  FROM marked
),
summed AS (
  SELECT usr, sess, min("at") AS s, max("at") AS e, count(*) AS c, list(kind ORDER BY "at") AS kinds, round(sum(v), 2) AS v
  FROM numbered
  GROUP BY ALL
)
SELECT s::DATE AS day, count(*) AS sessions, count(DISTINCT usr) AS users, max(c) AS longest, max(e - s) AS slowest,
       count(*) FILTER (list_contains(kinds, 'buy')) AS converted
FROM summed
GROUP BY day
ORDER BY day
;;
SELECT p.k, u.name, p."at",
       count(*) OVER (PARTITION BY u.country ORDER BY p."at" RANGE BETWEEN INTERVAL 6 HOUR PRECEDING AND INTERVAL 6 HOUR FOLLOWING EXCLUDE CURRENT ROW) AS company
FROM plays p LEFT JOIN users u ON p.usr = u.usr
ORDER BY p.k
;;
select e.usr, e."at", p.k from events e join plays p on p.usr = e.usr and p."at" between e."at" and e."at" + interval 1 hour order by all
;;
SELECT a.usr, a."at" AS view_at, min(b."at") AS buy_at, min(b."at") - a."at" AS took
FROM events a JOIN events b ON a.usr = b.usr AND b.kind = 'buy' AND a.kind = 'view' AND b."at" > a."at" AND b."at" <= a."at" + INTERVAL '2 days'
GROUP BY a.usr, a."at"
ORDER BY a.usr, a."at"
;;
SELECT a.k, count(b.id) AS before
FROM plays a LEFT JOIN nums b ON b.tz <= a."at"::TIMESTAMPTZ AND b.id % 10 = 0
WHERE a.k % 20 = 0
GROUP BY a.k
ORDER BY a.k
;;
SELECT n.id, n.tz, e.usr, e."at"
FROM nums n ASOF JOIN (SELECT usr, "at", "at" AT TIME ZONE 'UTC' AS atz FROM events WHERE usr = 'u4') e ON n.tz >= e.atz
ORDER BY n.id
;;
SELECT d.d, p.k, p.day
FROM (VALUES (DATE '2024-05-02'), (DATE '2024-05-06'), (DATE '2025-01-01')) d(d)
ASOF JOIN (SELECT max(k) AS k, day FROM plays WHERE day IS NOT NULL GROUP BY day) p ON d.d > p.day
ORDER BY d.d
;;
SELECT p.k, e."at" FROM plays p ASOF JOIN events e USING (usr, "at") ORDER BY p.k
;;
SELECT p.k, e."at" FROM plays p ASOF JOIN events e ON p.usr = e.usr ORDER BY p.k
;;
SELECT u.usr, t.d, (SELECT count(*) FROM plays p WHERE p.usr = u.usr AND p.day <= t.d) AS until
FROM users u, range(DATE '2024-05-02', DATE '2024-05-09', INTERVAL 3 DAY) t(d)
ORDER BY u.usr, t.d
;;
SELECT "at"::DATE AS day, count(*) AS c, avg(count(*)) OVER (ORDER BY "at"::DATE ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS ma
FROM events GROUP BY "at"::DATE ORDER BY 1
;;
SELECT date_trunc('day', "at") AS "at", count(*) FROM events GROUP BY "at" ORDER BY "at"
;;
SELECT date_trunc('day', "at") AS "at", count(*) FROM events GROUP BY 1 ORDER BY 1
;;
SELECT usr AS kind, kind AS usr, count(*) OVER (PARTITION BY kind) AS c, "at" FROM events WHERE usr = 'u2' ORDER BY "at"
;;
SELECT k + 1 AS k, lag(k) OVER (ORDER BY k) AS before FROM plays ORDER BY k LIMIT 15
;;
SELECT hour("at") AS h, h // 6 AS quarter, count(*) AS c, sum(c) OVER (PARTITION BY quarter) AS of_quarter FROM events GROUP BY h, quarter ORDER BY h
;;
SELECT dayname("at") AS dn, monthname(min("at")) AS mn, isodow("at") AS i, count(*) FROM events GROUP BY dn, i ORDER BY i
;;
SELECT extract(week FROM "at") AS w, extract('isoyear' FROM "at") AS y, count(*) AS c, min("at"), max("at") FROM plays GROUP BY 1, 2 ORDER BY 1 NULLS FIRST
;;
select date_part(['year', 'month', 'day'], day) as parts, count(*) from plays where day is not null group by 1 order by parts.day
;;
SELECT k, "at" + INTERVAL (n) DAY AS shifted, "at" - INTERVAL '1 month 2 days' AS back, day + n AS day_n FROM plays ORDER BY k LIMIT 50
;;
SELECT k, "at" + n * INTERVAL '90 minutes' AS moved FROM plays WHERE n > 0 QUALIFY moved > max("at") OVER () ORDER BY k
;;
SELECT usr, sum(gap) AS total_gap, max(gap), avg(epoch(gap)) FROM (SELECT usr, "at" - lag("at") OVER (PARTITION BY usr ORDER BY "at") AS gap FROM events) GROUP BY usr ORDER BY usr
;;
SELECT to_timestamp(1714521600 + b * 3600) AS t, id FROM nums WHERE id > 30 ORDER BY id
;;
SELECT id, epoch_ms(tz) AS ms, make_timestamp(epoch_us(tz)) AS again, make_timestamptz(epoch_us(tz)) = tz AS eq FROM nums ORDER BY id
;;
SELECT id, tz::DATE AS d, date_trunc('day', tz) AS t FROM nums WHERE tz IS NOT NULL ORDER BY id
;;
SELECT tz::TIMESTAMP::DATE AS d, count(*), min(id), max(id), sum(b) FROM nums GROUP BY d ORDER BY d NULLS FIRST
;;
SELECT id FROM nums WHERE tz >= '2024-05-05 06:00:00+00' AND tz < '2024-05-07'::DATE ORDER BY id
;;
SELECT id, tz FROM nums WHERE tz AT TIME ZONE 'UTC' BETWEEN TIMESTAMP '2024-05-02' AND TIMESTAMP '2024-05-04' ORDER BY tz
;;
SELECT usr, "at" FROM events WHERE "at" >= '2024-05-08T18:00:00' ORDER BY "at", usr
;;
SELECT usr, "at" FROM events WHERE "at" > 'yesterday-ish' ORDER BY "at", usr
;;
SELECT k, "at" FROM plays WHERE "at" > 20240503 ORDER BY k
;;
SELECT k, day FROM plays WHERE day IN ('2024-05-01', DATE '2024-05-09', TIMESTAMP '2024-05-04 00:00:00') ORDER BY k
;;
SELECT k, day FROM plays WHERE day = TIMESTAMP '2024-05-04 00:00:01' ORDER BY k
;;
SELECT k, day, "at" FROM plays WHERE "at"::DATE = day ORDER BY k
;;
SELECT k, day, "at" FROM plays WHERE day IS NOT DISTINCT FROM "at"::DATE ORDER BY k
;;
SELECT k FROM plays WHERE "at" IS DISTINCT FROM (SELECT max("at") FROM plays) AND day IS DISTINCT FROM '2024-05-02' AND k > 170 ORDER BY k
;;
SELECT k, lag(day) OVER (ORDER BY k) IS DISTINCT FROM day AS day_changed FROM plays ORDER BY k
;;
-- runs of the same ok value
WITH x AS (SELECT k, ok, row_number() OVER (ORDER BY k) - row_number() OVER (PARTITION BY ok ORDER BY k) AS g FROM plays)
SELECT min(k) AS from_k, max(k) AS to_k, ok, count(*) AS len FROM x GROUP BY ok, g ORDER BY from_k
;;
WITH flagged AS (
  SELECT k, n, sum(CASE WHEN n IS NULL THEN 0 ELSE 1 END) OVER (ORDER BY k) AS grp FROM plays
)
SELECT k, n, max(n) OVER (PARTITION BY grp) AS carried, row_number() OVER (PARTITION BY grp ORDER BY k) - 1 AS age FROM flagged ORDER BY k
;;
SELECT missing AS id_missing FROM range(-50, 50) r(missing) ANTI JOIN nums ON nums.id = missing ORDER BY 1
;;
SELECT usr, d::DATE AS silent_day
FROM (SELECT DISTINCT usr FROM events) u CROSS JOIN generate_series(TIMESTAMP '2024-05-01', TIMESTAMP '2024-05-09', INTERVAL 1 DAY) g(d)
WHERE NOT EXISTS (FROM events e WHERE e.usr = u.usr AND e."at" >= d AND e."at" < d + INTERVAL 1 DAY)
ORDER BY usr, silent_day
;;
SELECT day, list(usr ORDER BY "at", k) AS who, string_agg(DISTINCT usr, ' ' ORDER BY usr) AS names FROM plays GROUP BY day ORDER BY day NULLS LAST
;;
SELECT usr, list(v ORDER BY "at" DESC)[1:3] AS last_three, list_sum(list(v ORDER BY "at")[:2]) AS first_two FROM events GROUP BY usr ORDER BY usr
;;
SELECT usr, max_by(kind, "at") FILTER (v > 50) AS mb, min_by("at", v) AS when_least, arg_max(v, "at", 3) AS last3 FROM events GROUP BY usr ORDER BY usr
;;
SELECT day, first(n ORDER BY k) AS f, last(n ORDER BY k) AS l, any_value(n ORDER BY k) AS a, arg_max(n, k) AS am, arg_max_null(n, k) AS amn FROM plays GROUP BY day ORDER BY day
;;
SELECT "at"::DATE AS d, approx_quantile(v, 0.5) IS NOT NULL AS aq, quantile_cont(v, [0.25, 0.5, 0.75]) AS q, mad(v) AS m FROM events GROUP BY ALL ORDER BY d
;;
SELECT quantile_disc("at", 0.5) AS middle, quantile_cont("at", 0.5) AS mid2, median(day) AS md, mode(day) IS NOT NULL AS mo FROM plays
;;
SELECT usr, quantile_cont("at", 0.9) AS t90, mode() WITHIN GROUP (ORDER BY "at") = min("at") AS z, percentile_disc(0.5) WITHIN GROUP (ORDER BY "at" DESC) AS p FROM events GROUP BY usr ORDER BY usr
;;
SELECT date_trunc('day', e."at") AS d, e.kind, u.country,
       count(*) AS c, count(DISTINCT e.usr) AS users,
       grouping(d, e.kind, u.country) AS g
FROM events AS e LEFT JOIN users AS u USING (usr)
GROUP BY GROUPING SETS ((d, e.kind), (d), (u.country, e.kind), ())
ORDER BY g, d, e.kind NULLS FIRST, u.country NULLS FIRST
;;
SELECT day, ok, sum(n) AS s, rank() OVER (PARTITION BY grouping(day, ok) ORDER BY sum(n) DESC NULLS LAST, day, ok) AS r
FROM plays
WHERE day IS NOT NULL AND ok IS NOT NULL
GROUP BY ROLLUP (day, ok)
ORDER BY grouping(day, ok), r
;;
SELECT day, count(*) AS c, sum(count(*)) FILTER (WHERE day > '2024-05-04') OVER (ORDER BY day) AS later FROM plays GROUP BY day ORDER BY day NULLS FIRST
;;
SELECT usr, rank() OVER (ORDER BY rank DESC NULLS LAST) AS "rank", rank AS given FROM users ORDER BY "rank", usr
;;
SELECT "rank", count(*) AS n, percent_rank() OVER (ORDER BY "rank") AS pr FROM users GROUP BY "rank" ORDER BY "rank" NULLS LAST
;;
SELECT count(*) OVER () AS c, id, t FROM empty
;;
SELECT count(*), max(x) FROM (SELECT row_number() OVER (ORDER BY id) AS x FROM empty)
;;
SELECT n.id, lag(e.v, 1, -1.0) OVER (ORDER BY n.id) AS l, count(e.id) OVER () AS c FROM nums n LEFT JOIN empty e ON e.id = n.id WHERE n.id < -35 ORDER BY 1
;;
SELECT usr, "at", sum(v) OVER (PARTITION BY usr ORDER BY att) AS s FROM events ORDER BY usr, "at"
;;
SELECT usr, nth_value(v) OVER (PARTITION BY usr ORDER BY "at") FROM events ORDER BY 1
;;
SELECT usr, sum(v) OVER (ORDER BY "at" ROWS BETWEEN -1 PRECEDING AND CURRENT ROW) AS s, "at" FROM events ORDER BY usr, "at"
;;
SELECT k, sum(sum(n) OVER ()) OVER () FROM plays
;;
SELECT usr, sum(row_number() OVER (ORDER BY k)) FROM plays GROUP BY usr
;;
SELECT k, upper(usr) OVER (ORDER BY k) FROM plays
;;
SELECT k, ntile(0) OVER (ORDER BY k) FROM plays ORDER BY k
;;
SELECT k, sum(n) OVER (w PARTITION BY usr) AS s FROM plays WINDOW w AS (ORDER BY k) ORDER BY k
;;
SELECT strptime('2024-13-45', '%Y-%m-%d') AS bad, count(*) FROM plays
;;
SELECT make_date(2024, 2, 30) AS d FROM users WHERE usr = 'u1'
;;
SELECT date_trunc('fortnight', "at") AS f, count(*) FROM events GROUP BY 1 ORDER BY 1
;;
SELECT k, "at" AT TIME ZONE 'Mars/Olympus' AS t FROM plays WHERE "at" IS NOT NULL ORDER BY k
;;
SELECT usr, day, count(*) FROM plays GROUP BY usr ORDER BY usr, day
;;
SELECT k, n FROM plays QUALIFY n > 10 ORDER BY k
;;
SELECT k, row_number() OVER (ORDER BY "at" NULLS FIRST, k) AS by_time, row_number() OVER (ORDER BY price DESC NULLS LAST, k) AS by_price, row_number() OVER (PARTITION BY usr, song ORDER BY k) AS repeat
FROM plays
ORDER BY k DESC
LIMIT 50 OFFSET 20
;;
WITH ranked AS (SELECT *, row_number() OVER (PARTITION BY usr, day ORDER BY "at" DESC NULLS LAST, k) AS rn FROM plays)
SELECT * EXCLUDE (rn, tags, s, m, raw) FROM ranked WHERE rn = 1 AND usr IS NOT NULL AND day IS NOT NULL ORDER BY usr, day
;;
with latest as (from plays select usr, max(k) as k group by usr)
select p.k, p.usr, p.tags, p.s, p.m, p.raw from plays p semi join latest l on l.k = p.k order by p.k
;;
SELECT p.usr, p.song, s.title, count(*) AS c,
       row_number() OVER (PARTITION BY p.usr ORDER BY count(*) DESC, p.song) AS pos,
       ratio_to_report
FROM plays p JOIN songs s ON s.song = p.song
GROUP BY p.usr, p.song, s.title
QUALIFY pos = 1
ORDER BY p.usr
;;
SELECT p.usr, p.song, s.title, count(*) AS c,
       count(*) / sum(count(*)) OVER (PARTITION BY p.usr) AS share
FROM plays p JOIN songs s ON s.song = p.song
WHERE p.usr IS NOT NULL
GROUP BY p.usr, p.song, s.title
QUALIFY row_number() OVER (PARTITION BY p.usr ORDER BY count(*) DESC, p.song) <= 2
ORDER BY p.usr, c DESC, p.song
;;
SELECT s.genre, p.day, count(*) AS plays,
       first_value(count(*)) OVER (PARTITION BY s.genre ORDER BY p.day) AS base,
       count(*) - lag(count(*)) OVER (PARTITION BY s.genre ORDER BY p.day) AS dod
FROM plays p INNER JOIN songs s USING (song)
WHERE p.day IS NOT NULL
GROUP BY s.genre, p.day
ORDER BY s.genre NULLS LAST, p.day
;;
WITH funnel AS (
  SELECT usr,
         min("at") FILTER (WHERE kind = 'view') AS viewed,
         min("at") FILTER (WHERE kind = 'click') AS clicked,
         min("at") FILTER (WHERE kind = 'buy') AS bought
  FROM events GROUP BY usr
)
SELECT count(*) AS users, count(viewed) AS views,
       count(*) FILTER (clicked > viewed) AS then_clicked,
       count(*) FILTER (bought > clicked AND clicked > viewed) AS then_bought,
       median(bought - viewed) AS med
FROM funnel
;;
WITH funnel AS (
  SELECT usr, min("at") FILTER (WHERE kind = 'view') AS viewed, min("at") FILTER (WHERE kind = 'buy') AS bought FROM events GROUP BY usr
)
SELECT usr, viewed, bought, bought - viewed AS took, rank() OVER (ORDER BY bought - viewed NULLS LAST) AS r FROM funnel ORDER BY r, usr
;;
SELECT usr, "at", kind, lead("at", 1, "at" + INTERVAL 1 DAY) OVER (PARTITION BY usr ORDER BY "at") AS valid_to FROM events ORDER BY usr, "at"
;;
WITH spans AS (SELECT usr, kind, "at" AS f, lead("at", 1, TIMESTAMP '9999-12-31') OVER (PARTITION BY usr ORDER BY "at") AS t FROM events)
SELECT p.k, p.usr, s.kind, s.f FROM plays p JOIN spans s ON s.usr = p.usr AND p."at" >= s.f AND p."at" < s.t ORDER BY p.k
;;
SELECT t.d, count(*) AS open_spans
FROM (SELECT usr, "at" AS f, lead("at") OVER (PARTITION BY usr ORDER BY "at") AS t FROM events) s
JOIN range(TIMESTAMP '2024-05-01 12:00', TIMESTAMP '2024-05-10', INTERVAL '12' HOUR) t(d) ON t.d >= s.f AND (t.d < s.t OR s.t IS NULL)
GROUP BY t.d
ORDER BY t.d
;;
SELECT usr, count(*) AS c FROM events WHERE "at"::TIME BETWEEN '09:00' AND '17:00:00' AND dayofweek("at") NOT IN (0, 6) GROUP BY usr ORDER BY c DESC, usr
;;
SELECT "at"::TIME AS t, usr FROM events WHERE "at"::TIME < TIME '01:00:00' ORDER BY t, usr
;;
SELECT CASE WHEN hour("at") < 6 THEN 'night' WHEN hour("at") < 12 THEN 'morning' WHEN hour("at") < 18 THEN 'afternoon' ELSE 'evening' END AS part,
       count(*) AS c, round(avg(v), 6) AS av, count(*) * 100 // sum(count(*)) OVER () AS pct
FROM events
GROUP BY part
ORDER BY min(hour("at"))
;;
SELECT time_bucket(INTERVAL '2 days', day) AS b, sum(price) AS rev, sum(sum(price)) OVER (ORDER BY time_bucket(INTERVAL '2 days', day)) AS cum FROM plays GROUP BY b ORDER BY b
;;
SELECT time_bucket(INTERVAL '1 week', "at", TIMESTAMP '2024-05-01') AS b, count(*) FROM events GROUP BY ALL ORDER BY b
;;
SELECT time_bucket(INTERVAL '1 day', "at", INTERVAL '6 hours') AS b, count(*), min("at") FROM events GROUP BY 1 ORDER BY 1
;;
SELECT time_bucket(INTERVAL 1 MONTH, born) AS mo, count(*) AS c, list(usr ORDER BY usr) FROM users WHERE born > '1980-01-01' GROUP BY mo ORDER BY mo
;;
SELECT (year(born) // 10) * 10 AS decade, count(*), min(born), max(born), max(born) - min(born) AS spread FROM users GROUP BY decade ORDER BY decade NULLS LAST
;;
SELECT usr, born, last_day(born) AS eom, date_add(born, INTERVAL 18 YEAR) AS adult, date_sub('month', born, DATE '2024-05-01') AS months FROM users ORDER BY born NULLS FIRST, usr
;;
SELECT u.usr, u.born, lag(u.usr) OVER (ORDER BY u.born NULLS LAST, u.usr) AS elder, u.born - lag(u.born) OVER (ORDER BY u.born NULLS LAST, u.usr) AS days FROM users u ORDER BY u.born NULLS LAST, u.usr
;;
SELECT usr, country, born, count(*) OVER (PARTITION BY country ORDER BY born RANGE BETWEEN INTERVAL 5 YEARS PRECEDING AND INTERVAL 5 YEARS FOLLOWING) AS peers FROM users ORDER BY usr
;;
SELECT strftime("at", '%a %H:00') AS slot, count(*) AS c FROM events GROUP BY slot HAVING c >= 4 ORDER BY c DESC, slot
;;
SELECT k, strftime('%j/%U', day) AS ju, strftime("at", '%I:%M:%S.%g %p') AS clock FROM plays WHERE k < 60 ORDER BY k
;;
SELECT try_strptime(usr || '-05-2024', 'u%d-%m-%Y') AS d, usr FROM users ORDER BY usr
;;
SELECT strptime(x, ['%Y-%m-%d', '%d.%m.%Y %H:%M']) AS t, count(p.k) AS c FROM (VALUES ('2024-05-03'), ('04.05.2024 00:00')) v(x) LEFT JOIN plays p ON p.day = strptime(x, ['%Y-%m-%d', '%d.%m.%Y %H:%M']) GROUP BY ALL ORDER BY t
;;
SELECT usr, "at", v FROM events WHERE (usr, "at") IN (SELECT usr, max("at") FROM events WHERE kind = 'buy' GROUP BY usr) ORDER BY usr
;;
SELECT k, usr FROM plays WHERE k IN (SELECT k FROM plays QUALIFY row_number() OVER (PARTITION BY day ORDER BY n DESC NULLS LAST, k) = 1) ORDER BY k
;;
SELECT sum(n) OVER (ORDER BY k) AS s, k FROM (SELECT * FROM plays ORDER BY k LIMIT 20 OFFSET 30) ORDER BY k
;;
SELECT src, ts, usr, row_number() OVER (PARTITION BY usr ORDER BY ts, src, id) AS step
FROM (
  SELECT 'play' AS src, "at" AS ts, usr, k AS id FROM plays WHERE "at" IS NOT NULL
  UNION ALL
  SELECT 'event', "at", usr, 0 FROM events
)
WHERE usr IN ('u0', 'u5', 'u19')
QUALIFY step <= 6
ORDER BY usr, step
;;
WITH a AS (SELECT usr, row_number() OVER (ORDER BY sum(n) DESC NULLS LAST, usr) AS r FROM plays WHERE usr IS NOT NULL GROUP BY usr),
     b AS (SELECT usr, row_number() OVER (ORDER BY sum(v) DESC NULLS LAST, usr) AS r FROM events GROUP BY usr)
SELECT coalesce(a.usr, b.usr) AS usr, a.r AS plays_rank, b.r AS events_rank, a.r - b.r AS diff
FROM a FULL JOIN b ON a.usr = b.usr
ORDER BY abs(diff) DESC NULLS LAST, usr
;;
SELECT x.k, x.r, y.k AS next_k, y.n - x.n AS step
FROM (SELECT k, n, row_number() OVER (ORDER BY "at", k) AS r FROM plays WHERE "at" IS NOT NULL) x
JOIN (SELECT k, n, row_number() OVER (ORDER BY "at", k) AS r FROM plays WHERE "at" IS NOT NULL) y ON y.r = x.r + 1
ORDER BY x.r
;;
SELECT k, CASE WHEN row_number() OVER (PARTITION BY usr ORDER BY k) % 2 = 0 THEN 'even' ELSE usr || '/' || lag(usr, 1, 'none') OVER (ORDER BY k) END AS label FROM plays ORDER BY k
;;
SELECT usr, max(streak) AS best FROM (
  SELECT usr, count(*) AS streak FROM (
    SELECT usr, kind, "at", row_number() OVER (PARTITION BY usr ORDER BY "at") - row_number() OVER (PARTITION BY usr, kind ORDER BY "at") AS g FROM events
  ) GROUP BY usr, kind, g
) GROUP BY usr ORDER BY best DESC, usr
;;
PIVOT (SELECT "at"::DATE AS d, kind, usr FROM events WHERE kind IS NOT NULL) ON kind IN ('buy', 'click', 'view') USING count(*) GROUP BY d ORDER BY d
;;
FROM events SELECT *, v > avg(v) OVER (PARTITION BY kind ORDER BY "at" RANGE BETWEEN INTERVAL 1 DAY PRECEDING AND INTERVAL 1 MICROSECOND PRECEDING) AS above WHERE kind = 'buy' ORDER BY "at", usr
;;
SELECT usr, "at", count(*) OVER (PARTITION BY "at"::DATE ORDER BY "at", usr) AS "nth of day", count(*) OVER (PARTITION BY usr, "at"::DATE) AS "mine that day" FROM events ORDER BY "at", usr
;;
SELECT id, f, min(f) OVER (ORDER BY id ROWS BETWEEN 3 PRECEDING AND 3 FOLLOWING EXCLUDE CURRENT ROW) AS lo, max(f) OVER (ORDER BY id ROWS BETWEEN 3 PRECEDING AND 3 FOLLOWING EXCLUDE CURRENT ROW) AS hi FROM nums ORDER BY id
;;
SELECT id, b, sum(id) OVER (ORDER BY b RANGE BETWEEN 10 PRECEDING AND 10 FOLLOWING) AS s, count(*) OVER (ORDER BY b DESC NULLS FIRST GROUPS BETWEEN 1 PRECEDING AND 1 FOLLOWING EXCLUDE GROUP) AS c FROM nums WHERE id >= 0 ORDER BY id
;;
SELECT id, tz, count(*) OVER (ORDER BY tz RANGE BETWEEN INTERVAL 12 HOUR PRECEDING AND CURRENT ROW) AS c, tz - lag(tz) OVER (ORDER BY tz, id) AS gap FROM nums ORDER BY tz NULLS LAST, id
;;
SELECT k, n, sum(n) OVER (ORDER BY k ROWS BETWEEN abs(n) % 4 PRECEDING AND CURRENT ROW) AS dynamic FROM plays WHERE n IS NOT NULL ORDER BY k
;;
SELECT k, "at", count(*) OVER (ORDER BY "at" RANGE BETWEEN (INTERVAL 1 HOUR * (k % 5)) PRECEDING AND CURRENT ROW) AS c FROM plays WHERE "at" IS NOT NULL ORDER BY k
;;
SELECT usr, "at", rank() OVER w AS r, dense_rank() OVER w AS d, percent_rank() OVER w AS p, cume_dist() OVER w AS c, ntile(3) OVER (PARTITION BY kind ORDER BY v, usr, "at") AS t
FROM events
WINDOW w AS (PARTITION BY kind ORDER BY v)
ORDER BY usr, "at"
;;
SELECT kind, count(*) AS c, sum(c) OVER w AS before, lag(c, 1, 0) OVER w AS prev FROM events GROUP BY kind WINDOW w AS (ORDER BY kind NULLS FIRST) ORDER BY kind NULLS FIRST
;;
SELECT usr FROM events GROUP BY usr ORDER BY row_number() OVER (ORDER BY max("at") DESC, usr) LIMIT 5
;;
SELECT k, n FROM plays ORDER BY sum(n) OVER (PARTITION BY usr) DESC NULLS LAST, k LIMIT 12
;;
SELECT k, list_transform(tags, lambda t: t || k) AS labelled, unnest(tags) AS t, row_number() OVER (PARTITION BY usr ORDER BY k) AS rn FROM plays WHERE len(tags) = 2 AND usr = 'u6' ORDER BY k, t NULLS LAST
;;
WITH t AS (SELECT k, usr, day, unnest(tags) AS tag FROM plays)
SELECT day, tag, count(*) AS c, rank() OVER (PARTITION BY day ORDER BY count(*) DESC, tag) AS pos
FROM t WHERE tag IS NOT NULL GROUP BY day, tag QUALIFY pos = 1 ORDER BY day NULLS LAST
;;
SELECT k, s.x AS x, sum(s.x) OVER (PARTITION BY s.y ORDER BY k) AS by_y, max(s) OVER (ORDER BY k ROWS 4 PRECEDING) AS biggest FROM plays ORDER BY k
;;
SELECT DISTINCT "at"::DATE AS d, count(*) OVER (PARTITION BY "at"::DATE) AS c, count(*) OVER () AS of FROM events ORDER BY d
;;
SELECT country, usr, hits FROM (
  SELECT u.country, u.usr, count(e."at") AS hits, row_number() OVER (PARTITION BY u.country ORDER BY count(e."at") DESC, u.usr) rn
  FROM users u LEFT OUTER JOIN events e ON (e.usr = u.usr AND e."at" >= TIMESTAMP '2024-05-03' AND e."at" < TIMESTAMP '2024-05-06')
  GROUP BY 1, 2
) x WHERE rn <= 2 AND country IS NOT NULL ORDER BY 1, 3 DESC, 2
;;
-- weekly retention like in the dashboard
WITH base AS (SELECT DISTINCT usr, date_trunc('day', "at")::DATE AS d FROM events),
     pairs AS (SELECT a.d, a.usr, bool_or(b.usr IS NOT NULL) AS returned FROM base a LEFT JOIN base b ON b.usr = a.usr AND b.d = a.d + 1 GROUP BY a.d, a.usr),
     final AS (SELECT d, count(*) AS active, count(*) FILTER (WHERE returned) AS returned FROM pairs GROUP BY d)
SELECT d, active, returned, round(returned / active, 4) AS rate, round(avg(returned / active) OVER (ORDER BY d ROWS BETWEEN 2 PRECEDING AND CURRENT ROW), 4) AS smooth
FROM final
ORDER BY d
;;
WITH daily AS (
  SELECT day, sum(price) AS rev, count(*) AS c, count(DISTINCT usr) AS dau FROM plays WHERE day IS NOT NULL GROUP BY day
), trend AS (
  SELECT *, lag(rev) OVER o AS prev_rev, sum(rev) OVER (o ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS rev3, max(rev) OVER (o ROWS UNBOUNDED PRECEDING) AS peak
  FROM daily WINDOW o AS (ORDER BY day)
)
SELECT day, rev, c, dau, rev - prev_rev AS delta, round(100 * (rev - prev_rev) / prev_rev, 2) AS pct, rev3, rev = peak AS is_peak
FROM trend
QUALIFY row_number() OVER (ORDER BY day DESC) <= 7
ORDER BY day
;;
SELECT e.usr, e."at", e.kind, p.k, p."at" AS play_at, date_diff('second', p."at", e."at") AS ago
FROM events e
LEFT JOIN LATERAL (SELECT k, "at" FROM plays p WHERE p.usr = e.usr AND p."at" <= e."at" ORDER BY p."at" DESC, k LIMIT 1) p ON true
WHERE e.kind = 'buy'
ORDER BY e.usr, e."at"
;;
SELECT e.usr, e."at", p.k FROM events e ASOF LEFT JOIN plays p ON e.usr = p.usr AND e."at" < p."at" WHERE e.usr > 'u15' ORDER BY e.usr, e."at"
;;
SELECT p.day, count(*) AS c, count(e."at") AS matched, min(p."at" - e."at") AS closest FROM plays p ASOF LEFT JOIN events e ON p.usr = e.usr AND p."at" >= e."at" GROUP BY p.day ORDER BY p.day NULLS FIRST
;;
SELECT first_value(v ORDER BY "at") OVER (PARTITION BY usr) AS fv, usr, "at" FROM events ORDER BY usr, "at"
;;
SELECT usr, "at", string_agg(kind, '' ORDER BY "at" DESC) OVER (PARTITION BY usr) AS backwards FROM events WHERE usr IN ('u10', 'u11') ORDER BY ALL
;;
SELECT "at".usr, count(*) AS "count", max("at"."at") AS "at" FROM events AS "at" GROUP BY "at".usr HAVING max("at"."at") >= '2024-05-09 12:00' ORDER BY "at".usr
;;
SELECT CAST("at" AS DATE) AS day, usr, SUM(COUNT(*)) OVER (PARTITION BY usr ORDER BY CAST("at" AS DATE) RANGE BETWEEN INTERVAL 2 DAYS PRECEDING AND CURRENT ROW) AS rolling3
FROM events
WHERE usr BETWEEN 'u1' AND 'u14'
GROUP BY day, usr
ORDER BY usr, day
;;
SELECT d, usr, rolled FROM (
  SELECT "at"::DATE AS d, usr, count(*) AS c, sum(c) OVER (PARTITION BY usr ORDER BY d) AS rolled FROM events GROUP BY ALL
) WHERE d = DATE '2024-05-05' AND usr <> 'u9' ORDER BY usr
;;
SELECT TIMESTAMP '2024-03-31 01:30:00' AT TIME ZONE 'Europe/Berlin' + INTERVAL 1 HOUR AS dst, count(*) FILTER ("at" AT TIME ZONE 'Europe/Berlin' < TIMESTAMPTZ '2024-05-04 22:00:00+00') AS c FROM events
;;
SELECT usr, "at", fill(v) OVER (PARTITION BY usr ORDER BY "at") AS interpolated FROM events ORDER BY usr, "at"
;;
SELECT "at", "at" - lag("at") OVER (ORDER BY "at", k) AS gap, justify FROM plays ORDER BY "at", k
