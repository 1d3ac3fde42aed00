WITH spine AS (SELECT generate_series::DATE AS d FROM generate_series(TIMESTAMP '2024-05-01', TIMESTAMP '2024-05-10', INTERVAL 1 DAY)), facts AS (SELECT day AS d, count(*) AS c, sum(n) AS s FROM plays GROUP BY 1), joined AS (SELECT spine.d, coalesce(c, 0) AS c, coalesce(s, 0) AS s FROM spine LEFT JOIN facts USING (d)) SELECT d, c, s, sum(c) OVER (ORDER BY d) AS run, sum(s) OVER (ORDER BY d ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS mov FROM joined ORDER BY d
;;
WITH spine AS (SELECT unnest(range(DATE '2024-05-01', DATE '2024-05-12', INTERVAL '1 day'))::DATE AS d), u AS (SELECT DISTINCT country FROM users), grid AS (SELECT d, country FROM spine CROSS JOIN u), f AS (SELECT p.day, u.country, count(*) AS plays, count(DISTINCT p.usr) AS listeners FROM plays p JOIN users u ON p.usr = u.usr GROUP BY ALL) SELECT g.d, g.country, coalesce(f.plays, 0) AS plays, coalesce(f.listeners, 0) AS listeners FROM grid g LEFT JOIN f ON f.day = g.d AND f.country IS NOT DISTINCT FROM g.country ORDER BY ALL
;;
WITH first_seen AS (SELECT usr, min("at"::DATE) AS cohort FROM events GROUP BY usr), activity AS (SELECT DISTINCT e.usr, e."at"::DATE AS d FROM events e), joined AS (SELECT f.cohort, a.usr, date_diff('day', f.cohort, a.d) AS offs FROM first_seen f JOIN activity a USING (usr)), sizes AS (SELECT cohort, count(*) AS size FROM first_seen GROUP BY cohort) SELECT j.cohort, j.offs, count(DISTINCT j.usr) AS active, any_value(s.size) AS size, round(100.0 * count(DISTINCT j.usr) / any_value(s.size), 2) AS pct FROM joined j JOIN sizes s ON s.cohort = j.cohort GROUP BY j.cohort, j.offs ORDER BY 1, 2
;;
WITH cohort AS (SELECT usr, date_trunc('week', min(day)) AS wk FROM plays WHERE usr IS NOT NULL GROUP BY usr), act AS (SELECT usr, date_trunc('week', day) AS wk, count(*) AS c FROM plays WHERE day IS NOT NULL GROUP BY 1, 2) SELECT c.wk AS cohort, (a.wk::DATE - c.wk::DATE) // 7 AS week_no, count(*) AS users, sum(a.c) AS plays FROM cohort c JOIN act a ON a.usr = c.usr GROUP BY 1, 2 HAVING count(*) > 0
;;
WITH v AS (SELECT usr, min("at") AS t FROM events WHERE kind = 'view' GROUP BY usr), c AS (SELECT e.usr, min(e."at") AS t FROM events e JOIN v ON v.usr = e.usr AND e."at" > v.t WHERE e.kind = 'click' GROUP BY e.usr), b AS (SELECT e.usr, min(e."at") AS t FROM events e JOIN c ON c.usr = e.usr AND e."at" > c.t WHERE e.kind = 'buy' GROUP BY e.usr) SELECT 'view' AS step, count(*) AS users FROM v UNION ALL SELECT 'click', count(*) FROM c UNION ALL SELECT 'buy', count(*) FROM b
;;
WITH steps AS (SELECT usr, max(CASE WHEN kind = 'view' THEN 1 ELSE 0 END) AS viewed, max(CASE WHEN kind = 'click' THEN 1 ELSE 0 END) AS clicked, max(CASE WHEN kind = 'buy' THEN 1 ELSE 0 END) AS bought FROM events GROUP BY usr), tot AS (SELECT sum(viewed) AS v, sum(viewed * clicked) AS vc, sum(viewed * clicked * bought) AS vcb FROM steps) SELECT s.step, s.val, round(s.val / max(s.val) OVER (), 4) AS rate FROM tot, LATERAL (VALUES ('1 view', tot.v), ('2 click', tot.vc), ('3 buy', tot.vcb)) AS s(step, val) ORDER BY s.step
;;
WITH lagged AS (SELECT usr, "at", kind, lag("at") OVER (PARTITION BY usr ORDER BY "at") AS prev FROM events), flagged AS (SELECT *, CASE WHEN prev IS NULL OR "at" - prev > INTERVAL '12 hours' THEN 1 ELSE 0 END AS is_new FROM lagged), sess AS (SELECT *, sum(is_new) OVER (PARTITION BY usr ORDER BY "at" ROWS UNBOUNDED PRECEDING) AS sid FROM flagged) SELECT usr, sid, min("at") AS started, max("at") AS ended, count(*) AS events, count(*) FILTER (WHERE kind = 'buy') AS buys, date_diff('minute', min("at"), max("at")) AS minutes FROM sess GROUP BY usr, sid ORDER BY usr, sid
;;
WITH s AS (SELECT usr, "at", sum(CASE WHEN date_diff('hour', prev, "at") <= 6 THEN 0 ELSE 1 END) OVER w AS sid FROM (SELECT usr, "at", lag("at", 1) OVER (PARTITION BY usr ORDER BY "at") AS prev FROM events) WINDOW w AS (PARTITION BY usr ORDER BY "at")) SELECT count(*) AS sessions, avg(c)::DECIMAL(10, 3) AS avg_events, max(c) AS longest, median(c) AS med FROM (SELECT usr, sid, count(*) AS c FROM s GROUP BY usr, sid)
;;
SELECT usr, "at", kind FROM events QUALIFY row_number() OVER (PARTITION BY usr ORDER BY "at" DESC) <= 2
;;
SELECT * FROM (SELECT usr, song, n, row_number() OVER (PARTITION BY usr ORDER BY n DESC NULLS LAST, k) AS rn FROM plays) AS t WHERE t.rn <= 3 ORDER BY usr, rn
;;
SELECT u.usr, u.name, t.k, t.n FROM users u, LATERAL (SELECT k, n FROM plays p WHERE p.usr = u.usr ORDER BY n DESC NULLS LAST, k LIMIT 2) t ORDER BY u.usr, t.k
;;
SELECT u.usr, t.k FROM users u LEFT JOIN LATERAL (SELECT p.k FROM plays p WHERE p.usr = u.usr AND p.ok ORDER BY p.k LIMIT 1) t ON true
;;
SELECT country, sum(n) AS total, round(100.0 * sum(n) / sum(sum(n)) OVER (), 3) AS pct FROM plays JOIN users USING (usr) GROUP BY country ORDER BY total DESC
;;
SELECT genre, count(*) AS c, count(*) * 100.0 / (SELECT count(*) FROM plays) AS pct, rank() OVER (ORDER BY count(*) DESC) AS r FROM plays LEFT JOIN songs ON plays.song = songs.song GROUP BY genre
;;
SELECT day, usr, c, round(c / sum(c) OVER (PARTITION BY day), 4) AS share, sum(c) OVER (PARTITION BY day ORDER BY c DESC, usr NULLS LAST) AS cum FROM (SELECT day, usr, count(*) AS c FROM plays GROUP BY day, usr)
;;
WITH d AS (SELECT day, sum(price) AS rev FROM plays WHERE day IS NOT NULL GROUP BY day) SELECT day, rev, sum(rev) OVER (ORDER BY day) AS cum, avg(rev) OVER (ORDER BY day ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING)::DECIMAL(12, 3) AS ma3, rev - lag(rev) OVER (ORDER BY day) AS delta, round(rev / first_value(rev) OVER (ORDER BY day) * 100, 1) AS idx FROM d
;;
SELECT day, rev, avg(rev) OVER (ORDER BY day RANGE BETWEEN INTERVAL 2 DAYS PRECEDING AND CURRENT ROW)::DECIMAL(12, 2) AS ma, count(*) OVER (ORDER BY day RANGE BETWEEN INTERVAL '1' DAY PRECEDING AND INTERVAL '1' DAY FOLLOWING) AS c FROM (SELECT day, sum(price) AS rev FROM plays GROUP BY day) WHERE day IS NOT NULL
;;
WITH d AS (SELECT DISTINCT usr, day FROM plays WHERE usr IS NOT NULL AND day IS NOT NULL), g AS (SELECT usr, day, day - row_number() OVER (PARTITION BY usr ORDER BY day)::INTEGER AS grp FROM d) SELECT usr, min(day) AS from_day, max(day) AS to_day, count(*) AS streak FROM g GROUP BY usr, grp HAVING count(*) > 1 ORDER BY streak DESC, usr, from_day
;;
WITH x AS (SELECT k, n IS NULL AS missing FROM plays), y AS (SELECT k, missing, k - row_number() OVER (PARTITION BY missing ORDER BY k) AS g FROM x) SELECT missing, min(k) AS a, max(k) AS b, count(*) AS len FROM y GROUP BY missing, g HAVING count(*) >= 3 ORDER BY a
;;
SELECT usr, arg_max(song, k) AS last_song, arg_min(song, k) AS first_song, max(k) AS last_k, arg_max(k, "at") AS latest FROM plays GROUP BY usr
;;
SELECT DISTINCT ON (usr) usr, "at", kind, v FROM events ORDER BY usr, "at" DESC
;;
SELECT DISTINCT ON (song, ok) song, ok, k, n FROM plays ORDER BY song, ok, k
;;
SELECT * EXCLUDE (rn) FROM (SELECT k, usr, song, row_number() OVER (PARTITION BY usr, song ORDER BY k DESC) AS rn FROM plays) WHERE rn = 1
;;
WITH latest AS (SELECT usr, max("at") AS "at" FROM events GROUP BY usr) SELECT e.usr, e.kind, e.v FROM events e INNER JOIN latest l ON e.usr = l.usr AND e."at" = l."at"
;;
SELECT e.usr, e."at", e.kind FROM events e LEFT JOIN events later ON later.usr = e.usr AND later."at" > e."at" WHERE later.usr IS NULL
;;
SELECT usr, sum(CASE WHEN kind = 'click' THEN 1 ELSE 0 END) AS clicks, sum(CASE WHEN kind = 'view' THEN 1 END) AS views, count(CASE WHEN kind = 'buy' THEN 1 END) AS buys, count(*) FILTER (WHERE kind IS NULL) AS unknown, round(sum(CASE kind WHEN 'buy' THEN v ELSE 0 END), 2) AS revenue FROM events GROUP BY usr
;;
PIVOT (SELECT usr, kind FROM events WHERE usr < 'u15') ON kind IN ('click', 'view', 'buy') USING count(*) AS c GROUP BY usr
;;
SELECT * FROM (SELECT usr, kind, v FROM events) PIVOT (count(*) FOR kind IN ('click' AS clk, 'view' AS vw, 'buy' AS by_) GROUP BY usr) ORDER BY usr
;;
SELECT * FROM (PIVOT events ON kind IN ('click', 'buy') USING count(*) AS n, round(sum(v), 2) AS v GROUP BY usr) ORDER BY usr LIMIT 5
;;
WITH p AS (PIVOT (SELECT u.country, e.kind FROM events e JOIN users u ON u.usr = e.usr) ON kind IN ('click', 'view', 'buy') USING count(*)) SELECT country, click + view + buy AS total FROM p
;;
WITH w AS (SELECT date_part('week', "at") AS wk, count(*) AS c, round(sum(v), 1) AS s FROM events GROUP BY 1) SELECT a.wk, a.c, b.c AS prev, a.c - b.c AS diff, round((a.c - b.c) * 100.0 / b.c, 2) AS growth FROM w a LEFT JOIN w b ON a.wk = b.wk + 1 ORDER BY a.wk
;;
WITH y AS (SELECT year(born) AS y, count(*) AS c FROM users GROUP BY ALL) SELECT cur.y, cur.c, prv.c AS last, cur.c - coalesce(prv.c, 0) AS diff FROM y cur LEFT JOIN y prv ON prv.y = cur.y - 1 ORDER BY cur.y
;;
SELECT e.usr, e."at", p.k, p.song FROM events e ASOF LEFT JOIN (SELECT * FROM plays WHERE usr IS NOT NULL AND "at" IS NOT NULL) p ON e.usr = p.usr AND e."at" >= p."at" ORDER BY 1, 2
;;
SELECT count(*), count(p.k), sum(date_diff('second', p."at", e."at")) AS lagsum FROM events e ASOF JOIN plays p ON e.usr = p.usr AND p."at" <= e."at"
;;
SELECT e.kind, count(DISTINCT p.song) AS songs, max(e."at" - p."at") AS longest FROM (SELECT * FROM events WHERE kind IS NOT NULL) e ASOF JOIN (SELECT usr, "at", song FROM plays) p ON e.usr = p.usr AND e."at" > p."at" GROUP BY e.kind
;;
SELECT floor(n / 10) * 10 AS bucket, count(*) AS c FROM plays WHERE n IS NOT NULL GROUP BY bucket ORDER BY bucket
;;
SELECT width, count(*) FROM (SELECT CASE WHEN price < 100 THEN '<100' WHEN price < 500 THEN '100-499' WHEN price IS NULL THEN 'none' ELSE '500+' END AS width FROM plays) GROUP BY width
;;
WITH b AS (SELECT min(v) AS lo, max(v) AS hi FROM events) SELECT least(floor((v - lo) / ((hi - lo) / 8)), 7)::INTEGER AS bin, count(*) AS c, min(v) AS a, max(v) AS z FROM events, b WHERE v IS NOT NULL GROUP BY bin ORDER BY bin
;;
SELECT equi_width_bins(0, 100, 10, true) AS bins, histogram(v::INTEGER, [0, 25, 50, 75, 100]) AS h FROM events
;;
SELECT kind, median(v) AS med, quantile_cont(v, 0.25) AS q1, quantile_disc(v, 0.75) AS q3, round(stddev_samp(v), 4) AS sd, mode(usr > 'u2') AS m, mad(v) AS mad FROM events GROUP BY kind
;;
SELECT usr, percentile_cont(0.5) WITHIN GROUP (ORDER BY v) AS med, percentile_disc(0.9) WITHIN GROUP (ORDER BY v DESC) AS p90 FROM events GROUP BY usr
;;
SELECT date_trunc('week', "at") AS wk, date_trunc('month', "at") AS mo, dayofweek("at") AS dow, isodow("at") AS idow, strftime("at", '%Y-W%V') AS iso, count(*) FROM events GROUP BY ALL ORDER BY ALL
;;
SELECT tz AT TIME ZONE 'Europe/Istanbul' AS loc, date_trunc('day', tz AT TIME ZONE 'America/New_York') AS ny, extract(hour FROM tz AT TIME ZONE 'Asia/Tokyo') AS h FROM nums WHERE tz IS NOT NULL
;;
SELECT extract('hour' FROM timezone('Europe/Berlin', tz)) AS h, count(*) FROM nums GROUP BY 1 ORDER BY 1
;;
SELECT ("at" AT TIME ZONE 'UTC') AT TIME ZONE 'Europe/Istanbul' AS t, usr FROM events WHERE usr = 'u3'
;;
SELECT coalesce(usr, '(none)') AS u, nullif(song, 's3') AS s, ifnull(n, 0) AS n, n IS NULL AS isn, CASE WHEN usr IS NULL AND song IS NULL THEN 'both' WHEN usr IS NULL OR song IS NULL THEN 'one' END AS what FROM plays
;;
SELECT count(*) AS a, count(n) AS b, sum(n) AS c, avg(coalesce(n, 0))::DECIMAL(10, 4) AS d, count(*) - count(n) AS e, round(avg(n), 4) AS f FROM plays WHERE usr IS NULL OR n <> 5
;;
SELECT usr, substr(usr, 2)::INTEGER AS num, usr[1] AS c, left(name, 1) AS i, right(name, 1) AS j, upper(name) AS up, lower(name) AS lo, length(name) AS len, reverse(name) AS rev, regexp_extract(name, '([A-Za-z]+)(\d)', 2) AS dig FROM users
;;
SELECT split_part(x, ':', 1) AS a, split_part(x, ':', 2)::INTEGER AS b, string_split(x, ':') AS c, strpos(x, ':') AS p, regexp_replace(x, '[0-9]+', '#', 'g') AS r, regexp_matches(x, '^u1') AS m FROM (SELECT usr || ':' || k AS x FROM plays WHERE usr IS NOT NULL)
;;
SELECT usr, json_object('name', name, 'country', country, 'rank', rank) AS j FROM users
;;
SELECT to_json({'k': k, 'usr': usr, 'tags': tags}) AS j, (to_json(s) ->> 'x')::BIGINT AS x, json_extract_string(to_json(s), '$.y') AS y FROM plays
;;
SELECT tag, count(*) AS c, count(DISTINCT k) AS ks, list(DISTINCT usr ORDER BY usr) AS us FROM (SELECT k, usr, unnest(tags) AS tag FROM plays) GROUP BY tag ORDER BY tag
;;
SELECT p.usr, t.tag, count(*) AS c FROM plays p, unnest(p.tags) AS t(tag) GROUP BY 1, 2 ORDER BY 1, 2
;;
SELECT p.k, list_sort(list(t.tag)) AS tags FROM plays p CROSS JOIN LATERAL (SELECT unnest(p.tags) AS tag) t WHERE t.tag IS NOT NULL GROUP BY p.k
;;
SELECT key, sum(value) AS s, count(*) AS c FROM (SELECT unnest(map_entries(m), recursive := true) FROM plays) GROUP BY key
;;
SELECT e.key AS mk, sum(e.value) AS mv FROM (SELECT unnest(map_entries(m)) AS e FROM plays) GROUP BY mk ORDER BY mk
;;
SELECT usr, map_from_entries(list((kind, c) ORDER BY kind)) AS m FROM (SELECT usr, kind, count(*) AS c FROM events WHERE kind IS NOT NULL GROUP BY ALL) GROUP BY usr
;;
SELECT country, map(list(usr ORDER BY usr), list(rank ORDER BY usr)) AS m FROM users GROUP BY country
;;
SELECT u.usr FROM users u WHERE NOT EXISTS (SELECT 1 FROM plays p WHERE p.usr = u.usr AND p.ok) ORDER BY u.usr
;;
SELECT u.usr FROM users u ANTI JOIN (SELECT usr FROM events WHERE kind = 'buy') e USING (usr)
;;
SELECT usr FROM users WHERE usr NOT IN (SELECT usr FROM plays WHERE usr IS NOT NULL AND n > 20) ORDER BY usr DESC
;;
SELECT usr FROM plays WHERE usr NOT IN (SELECT usr FROM plays WHERE n > 40)
;;
(SELECT usr FROM plays WHERE ok EXCEPT SELECT usr FROM events WHERE kind = 'buy') UNION ALL (SELECT usr FROM users WHERE country = 'DE' INTERSECT SELECT usr FROM events) ORDER BY usr NULLS FIRST LIMIT 100
;;
(SELECT usr, n FROM plays WHERE n IS NOT NULL ORDER BY n DESC, k LIMIT 5) UNION ALL (SELECT usr, n FROM plays WHERE n IS NOT NULL ORDER BY n, k LIMIT 5) ORDER BY n, usr
;;
SELECT CASE WHEN grouping(country) = 1 THEN 'All' ELSE coalesce(country, '?') END AS country, CASE WHEN grouping(kind) = 1 THEN 'Total' ELSE coalesce(kind, '?') END AS kind, count(*) AS c FROM events JOIN users USING (usr) GROUP BY ROLLUP (country, kind) ORDER BY grouping(country), 1, grouping(kind), 2
;;
SELECT country, genre, sum(n) AS s, grouping_id(country, genre) AS g FROM plays p JOIN users u ON p.usr = u.usr JOIN songs so ON so.song = p.song GROUP BY CUBE (country, genre)
;;
SELECT day, usr, count(*) AS c, grouping(day) AS gd FROM plays GROUP BY GROUPING SETS ((day), (usr), ()) HAVING count(*) > 3
;;
SELECT usr, count(*) AS c FROM plays GROUP BY usr HAVING count(*) > (SELECT avg(c) FROM (SELECT count(*) AS c FROM plays GROUP BY usr))
;;
SELECT song, sum(n) AS s FROM plays GROUP BY song HAVING sum(n) = (SELECT max(s) FROM (SELECT sum(n) AS s FROM plays WHERE song IS NOT NULL GROUP BY song)) OR song IN (SELECT song FROM songs WHERE genre = 'jazz')
;;
SELECT u.usr, (SELECT count(*) FROM plays p WHERE p.usr = u.usr) AS plays, (SELECT count(*) FROM events e WHERE e.usr = u.usr AND e.kind = 'buy') AS buys, (SELECT max(e."at") FROM events e WHERE e.usr = u.usr) AS last_seen FROM users u ORDER BY u.usr
;;
SELECT u.usr, (SELECT p.song FROM plays p WHERE p.usr = u.usr ORDER BY p.k DESC LIMIT 1) AS last_song, (SELECT s.title FROM songs s WHERE s.song = (SELECT min(p.song) FROM plays p WHERE p.usr = u.usr)) AS t FROM users u
;;
SELECT p.k, p.n, (SELECT count(*) FROM plays q WHERE q.usr = p.usr AND q.n > p.n) AS better FROM plays p
;;
SELECT p.k, (SELECT round(avg(q.n), 3) FROM plays q WHERE q.day = p.day AND q.k <> p.k) AS others FROM plays p WHERE p.k % 3 = 0
;;
SELECT CASE WHEN n IS NULL THEN 'n/a' WHEN n < -25 THEN 'very low' WHEN n < 0 THEN 'low' WHEN n BETWEEN 0 AND 25 THEN 'high' ELSE CASE WHEN ok THEN 'very high ok' ELSE 'very high' END END AS tier, count(*) AS c, min(k) AS mk FROM plays GROUP BY 1 ORDER BY 3
;;
SELECT usr FROM plays WHERE ('' = '' OR usr = '') AND (NULL IS NULL OR song = NULL) AND day >= COALESCE(NULL, DATE '2024-05-03') AND n IN (1, 2, 3, NULL)
;;
SELECT k FROM plays WHERE 1 = 1 AND (1 = 0 OR usr LIKE '%1%') AND day BETWEEN '2024-05-02' AND '2024-05-04'
;;
SELECT usr AS u, kind AS "Kind of Event", count(*) AS "COUNT(*)" FROM events GROUP BY u, "Kind of Event" ORDER BY "COUNT(*)" DESC, u, 2 LIMIT 1001
;;
SELECT 1, usr, count(*) FROM plays GROUP BY 2 ORDER BY 3 DESC, 2
;;
SELECT usr, max(n) - min(n) AS spread FROM plays GROUP BY usr ORDER BY max(n) - min(n) DESC NULLS LAST, lower(usr) LIMIT 7
;;
SELECT "t0"."usr" AS "usr", SUM("t0"."n") AS "sum:n:ok" FROM "plays" "t0" GROUP BY 1 HAVING (COUNT(1) > 0)
;;
SELECT * FROM (SELECT "k", "usr", "song" FROM "plays") "t0" WHERE 1=0
;;
SELECT "t0"."Calculation_1" AS "Calculation_1", COUNT(DISTINCT "t0"."usr") AS "ctd:usr:ok" FROM (SELECT "plays"."usr" AS "usr", (CASE WHEN ("plays"."n" > 0) THEN 'pos' WHEN NOT ("plays"."n" > 0) THEN 'neg' ELSE NULL END) AS "Calculation_1" FROM "plays" "plays" WHERE ("plays"."day" >= (DATE '2024-05-02'))) "t0" GROUP BY 1
;;
SELECT "plays"."usr" AS "usr", SUM("plays"."price") AS "sum:price:ok" FROM "plays" INNER JOIN (SELECT "plays"."usr" AS "usr", COUNT(1) AS "$__alias__0" FROM "plays" GROUP BY 1 ORDER BY 2 DESC, 1 ASC LIMIT 5) "t0" ON ("plays"."usr" IS NOT DISTINCT FROM "t0"."usr") GROUP BY 1
;;
SELECT CAST(TRUNC(EXTRACT(YEAR FROM "events"."at")) AS INTEGER) AS "yr:at:ok", CAST(TRUNC(EXTRACT(QUARTER FROM "events"."at")) AS INTEGER) AS "qr:at:ok", SUM(CAST("events"."v" AS DECIMAL(18,2))) AS "sum:v:ok" FROM "events" "events" GROUP BY 1, 2 HAVING (COUNT(1) > 0)
;;
SELECT DATE_TRUNC('DAY', CAST("events"."at" AS TIMESTAMP)) AS "tdy:at:ok", AVG(CAST("events"."v" AS DOUBLE PRECISION)) AS "avg:v:ok" FROM "events" WHERE (("events"."kind" IN ('buy', 'view')) OR ("events"."kind" IS NULL)) GROUP BY 1
;;
SELECT MIN("t0"."at") AS "TEMP(TC_)(1)(0)", MAX("t0"."at") AS "TEMP(TC_)(2)(0)" FROM "events" "t0" HAVING (COUNT(1) > 0)
;;
SELECT TRUE AS "$__ok", SUM(1) AS "sum:Number of Records:ok" FROM "plays" HAVING (COUNT(1) > 0)
;;
SELECT "source"."kind" AS "kind", COUNT(*) AS "count", SUM("source"."v2") AS "sum" FROM (SELECT "main"."events"."usr" AS "usr", "main"."events"."kind" AS "kind", CAST("main"."events"."v" * 100 AS BIGINT) AS "v2" FROM "main"."events") AS "source" WHERE ("source"."usr" <> 'u1' OR "source"."usr" IS NULL) GROUP BY "source"."kind" ORDER BY "source"."kind" ASC
;;
SELECT "source"."Users - Usr__country" AS "Users - Usr__country", COUNT(*) AS "count" FROM (SELECT "main"."plays"."k" AS "k", "main"."plays"."usr" AS "usr", "Users - Usr"."country" AS "Users - Usr__country" FROM "main"."plays" LEFT JOIN "main"."users" AS "Users - Usr" ON "main"."plays"."usr" = "Users - Usr"."usr") AS "source" GROUP BY "source"."Users - Usr__country" ORDER BY "count" DESC, "source"."Users - Usr__country" ASC LIMIT 1048575
;;
SELECT CAST(DATE_TRUNC('week', "main"."events"."at") AS DATE) AS "at", COUNT(*) AS "count" FROM "main"."events" WHERE "main"."events"."at" >= DATE_TRUNC('day', TIMESTAMP '2024-05-08 10:00:00' + INTERVAL '-5 day') AND "main"."events"."at" < DATE_TRUNC('day', TIMESTAMP '2024-05-08 10:00:00') GROUP BY CAST(DATE_TRUNC('week', "main"."events"."at") AS DATE) ORDER BY 1
;;
SELECT DATE_TRUNC('DAY', "at") AS __timestamp, kind AS kind, COUNT(*) AS "count", COUNT(DISTINCT usr) AS "COUNT_DISTINCT(usr)" FROM main.events JOIN (SELECT kind AS kind__, COUNT(*) AS mme_inner__ FROM main.events WHERE "at" >= '2024-05-01 00:00:00.000000' GROUP BY kind ORDER BY mme_inner__ DESC, kind LIMIT 2) AS series_limit ON kind = kind__ WHERE "at" >= TIMESTAMP '2024-05-01 00:00:00.000000' AND "at" < TIMESTAMP '2024-05-09 00:00:00.000000' GROUP BY DATE_TRUNC('DAY', "at"), kind ORDER BY "count" DESC, 1, 2 LIMIT 10000
;;
SELECT * FROM (SELECT * FROM (SELECT usr, name, country FROM users ORDER BY usr LIMIT 1001) AS inner_q LIMIT 1001) AS virtual_table LIMIT 1001 OFFSET 0
;;
SELECT TOP.usr, TOP.c FROM (SELECT usr, count(*) AS c FROM plays GROUP BY usr) AS TOP WHERE TOP.c > 5
;;
select "_"."country", "_"."a0" from (select "rows"."country" as "country", sum("rows"."rank") as "a0" from (select "country", "rank" from "main"."users" "$Table" where "rank" is not null) "rows" group by "country") "_" where not "_"."a0" is null
;;
select top_.country as "C1", cast(count(*) as double) as "C2", cast(sum(cast(case when top_.rank is null then 0 else top_.rank end as double precision)) as decimal(20,2)) as "C3" from users top_ where ((top_.country in ('DE', 'TR')) and (top_.born >= cast('1960-01-01' as date))) group by top_.country having (count(*) > 0) order by 1
;;
SELECT md5(concat_ws('-', coalesce(usr, '_null_'), coalesce(song, '_null_'), coalesce(CAST(day AS VARCHAR), '_null_'))) AS sk, count(*) AS c FROM plays GROUP BY 1
;;
WITH source AS (SELECT * FROM plays), renamed AS (SELECT k AS play_id, usr AS user_id, song AS song_id, price::DECIMAL(18, 4) AS amount, "at" AS played_at, md5(CAST(coalesce(CAST(usr AS TEXT), '_dbt_utils_surrogate_key_null_') || '-' || coalesce(CAST(k AS TEXT), '_dbt_utils_surrogate_key_null_') AS TEXT)) AS sk FROM source), final AS (SELECT sk, user_id, amount, row_number() OVER (PARTITION BY user_id ORDER BY played_at DESC NULLS LAST, play_id) AS rn FROM renamed) SELECT * FROM final WHERE rn = 1
;;
SELECT count(*) AS failures, count(*) != 0 AS should_warn, count(*) != 0 AS should_error FROM (SELECT usr FROM users WHERE usr IS NOT NULL GROUP BY usr HAVING count(*) > 1) dbt_internal_test
;;
WITH all_values AS (SELECT kind AS value_field, count(*) AS n_records FROM events GROUP BY kind) SELECT * FROM all_values WHERE value_field NOT IN ('click', 'buy')
;;
WITH child AS (SELECT usr AS from_field FROM plays WHERE usr IS NOT NULL), parent AS (SELECT usr AS to_field FROM users) SELECT from_field FROM child LEFT JOIN parent ON child.from_field = parent.to_field WHERE parent.to_field IS NULL
;;
SELECT k, sum(n) OVER (ORDER BY k ROWS BETWEEN 3 PRECEDING AND 1 PRECEDING) AS a, first_value(n IGNORE NULLS) OVER (ORDER BY k ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS b, last_value(n IGNORE NULLS) OVER (ORDER BY k) AS c, nth_value(n, 3) OVER (ORDER BY k) AS d, ntile(7) OVER (ORDER BY k) AS e, cume_dist() OVER (ORDER BY k) AS f FROM plays
;;
SELECT k, count(*) OVER (PARTITION BY usr ORDER BY k GROUPS BETWEEN 1 PRECEDING AND 1 FOLLOWING EXCLUDE CURRENT ROW) AS a, sum(n) OVER (PARTITION BY ok ORDER BY k ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING EXCLUDE TIES) AS b, max(n) FILTER (WHERE ok) OVER (PARTITION BY usr) AS c FROM plays
;;
SELECT usr, day, count(*) AS c, sum(count(*)) OVER (PARTITION BY usr ORDER BY day) AS run, lag(count(*), 1, 0) OVER (PARTITION BY usr ORDER BY day) AS prev, rank() OVER (PARTITION BY day ORDER BY count(*) DESC) AS r FROM plays GROUP BY usr, day
;;
SELECT country, count(*) AS c, string_agg(usr, ', ' ORDER BY usr) AS us, list(name ORDER BY usr) AS ns, min(born) AS b, max(born) FILTER (WHERE rank > 3) AS bb FROM users GROUP BY country HAVING bool_or(rank > 2)
;;
WITH RECURSIVE t(d) AS (SELECT DATE '2024-05-01' UNION ALL SELECT (d + INTERVAL 1 DAY)::DATE FROM t WHERE d < DATE '2024-05-10') SELECT t.d, count(p.k) AS c, count(DISTINCT p.usr) AS u FROM t LEFT JOIN plays p ON p.day = t.d GROUP BY t.d ORDER BY t.d
;;
WITH hours AS (SELECT range AS h FROM range(24)), byh AS (SELECT hour("at") AS h, count(*) AS c FROM events GROUP BY 1) SELECT h, coalesce(c, 0) AS c, repeat('*', coalesce(c, 0)::INT) AS bar FROM hours LEFT JOIN byh USING (h) ORDER BY h
;;
WITH a AS (SELECT usr, sum(n) AS s FROM plays GROUP BY usr), b AS (SELECT *, ntile(4) OVER (ORDER BY s DESC NULLS LAST, usr NULLS LAST) AS q FROM a), c AS (SELECT q, count(*) AS users, sum(s) AS total FROM b GROUP BY q), d AS (SELECT sum(total) AS grand FROM c) SELECT c.q, c.users, c.total, round(c.total::DOUBLE / d.grand, 4) AS share FROM c CROSS JOIN d ORDER BY c.q
;;
WITH rfm AS (SELECT usr, date_diff('day', max("at"), TIMESTAMP '2024-05-11') AS r, count(*) AS f, round(sum(v), 2) AS m FROM events GROUP BY usr), scored AS (SELECT *, ntile(3) OVER (ORDER BY r, usr) AS rs, ntile(3) OVER (ORDER BY f DESC, usr) AS fs, ntile(3) OVER (ORDER BY m DESC, usr) AS ms FROM rfm) SELECT rs || fs || ms AS seg, count(*) AS c, list(usr ORDER BY usr) AS us FROM scored GROUP BY seg ORDER BY seg
;;
WITH pairs AS (SELECT a.song AS x, b.song AS y, count(DISTINCT a.usr) AS c FROM plays a JOIN plays b ON a.usr = b.usr AND a.song < b.song GROUP BY 1, 2) SELECT x, y, c FROM pairs WHERE c >= 3 ORDER BY c DESC, x, y
;;
WITH t AS (SELECT usr, kind, lead(kind) OVER (PARTITION BY usr ORDER BY "at") AS nxt FROM events) SELECT coalesce(kind, '-') || ' > ' || coalesce(nxt, '-') AS path, count(*) AS c, round(count(*) / sum(count(*)) OVER (PARTITION BY kind), 4) AS p FROM t GROUP BY kind, nxt
;;
WITH e AS (SELECT usr, list(kind ORDER BY "at") AS path FROM events GROUP BY usr) SELECT usr, array_to_string(path[1:3], '>') AS start, len(path) AS n, list_position(path, 'buy') AS first_buy, list_contains(path, 'buy') AS has FROM e
;;
SELECT usr, string_agg(kind, '>' ORDER BY "at") AS path FROM events WHERE "at" < '2024-05-03' GROUP BY usr HAVING string_agg(kind, '>' ORDER BY "at") LIKE '%view%buy%'
;;
SELECT s.genre, p.usr, sum(s.len) AS total FROM plays p JOIN songs s USING (song) GROUP BY 1, 2 QUALIFY rank() OVER (PARTITION BY s.genre ORDER BY sum(s.len) DESC, p.usr) <= 3
;;
SELECT genre, title, cnt FROM (SELECT s.genre, s.title, count(*) AS cnt, dense_rank() OVER (PARTITION BY s.genre ORDER BY count(*) DESC) AS dr FROM plays p JOIN songs s ON p.song = s.song GROUP BY s.genre, s.title) x WHERE dr <= 2
;;
SELECT u.usr, coalesce(p.c, 0) AS plays, coalesce(e.c, 0) AS events FROM users u LEFT JOIN (SELECT usr, count(*) AS c FROM plays GROUP BY usr) p ON p.usr = u.usr LEFT JOIN (SELECT usr, count(*) AS c FROM events GROUP BY usr) e ON e.usr = u.usr ORDER BY 2 DESC, 3 DESC, 1
;;
SELECT coalesce(p.usr, e.usr) AS usr, p.c AS plays, e.c AS events FROM (SELECT usr, count(*) AS c FROM plays GROUP BY usr) p FULL OUTER JOIN (SELECT usr, count(*) AS c FROM events GROUP BY usr) e ON p.usr = e.usr
;;
SELECT usr, p.c, e.c AS ec FROM (SELECT usr, count(*) AS c FROM plays GROUP BY usr) p FULL JOIN (SELECT usr, count(*) AS c FROM events WHERE kind = 'buy' GROUP BY usr) e USING (usr) ORDER BY usr NULLS LAST, p.c
;;
SELECT k, sum(n) OVER w AS s, (SELECT max(c) FROM (SELECT sum(rank) OVER w AS c FROM users WINDOW w AS (PARTITION BY country ORDER BY usr)) t) AS m FROM plays WINDOW w AS (ORDER BY k) ORDER BY k LIMIT 5
;;
SELECT k, sum(n) OVER W AS s, count(*) OVER (PARTITION BY usr) AS c FROM plays WINDOW w AS (PARTITION BY ok ORDER BY k)
;;
SELECT usr, count(*) AS c FROM plays GROUP BY ALL HAVING day > DATE '2024-05-05'
;;
SELECT usr, count(*) AS c FROM plays GROUP BY ALL HAVING max(day) > DATE '2024-05-08' ORDER BY c DESC, usr
;;
SELECT date_trunc('day', "at") AS d, count(*) AS c FROM events GROUP BY ALL HAVING d > TIMESTAMP '2024-05-04' ORDER BY d
;;
SELECT usr, count(*) AS c FROM plays GROUP BY ALL HAVING usr <> 'u1' AND c > 3
;;
SELECT upper(usr) AS u, count(*) AS c FROM plays GROUP BY ALL HAVING u LIKE 'U1%'
;;
SELECT upper(usr) AS u, n % 2 AS par, count(*) AS c, sum(n) AS s FROM plays GROUP BY ALL HAVING par = 0 AND s > 10 ORDER BY ALL
;;
SELECT ok, CASE WHEN n > 0 THEN 'p' ELSE 'm' END AS sgn, count(*) AS c FROM plays GROUP BY ALL HAVING sgn = 'p'
;;
SELECT CASE WHEN n > 0 THEN 'p' ELSE 'm' END AS sgn, count(*) AS c FROM plays GROUP BY sgn HAVING sgn = 'p' ORDER BY sgn
;;
SELECT usr, arg_max(p, p.k).song AS last_song, (arg_max(p, p.k)).n AS ln FROM plays p GROUP BY usr
;;
SELECT usr, unnest(arg_max(e, e."at")) FROM events e GROUP BY usr
;;
SELECT u FROM users u WHERE rank > 5
;;
SELECT to_json(u) AS j FROM users u
;;
SELECT usr, list(e ORDER BY e."at")[1].kind AS first_kind, len(list(e)) AS n FROM events e GROUP BY usr
;;
SELECT count(DISTINCT u) AS c, max(u).usr AS m FROM users u
;;
SELECT unnest(s) FROM songs s WHERE genre = 'pop'
;;
SELECT p.usr, u.usr, p.k FROM plays p JOIN users u ON p.usr = u.usr ORDER BY p.k LIMIT 4
;;
SELECT usr_1, count(*) FROM (SELECT p.usr, u.usr FROM plays p LEFT JOIN users u ON p.usr = u.usr AND u.country = 'DE') t GROUP BY usr_1
;;
SELECT * FROM (SELECT p.k, p.usr, u.* FROM plays p JOIN users u ON p.usr = u.usr WHERE p.k < 20) t ORDER BY k
;;
SELECT "usr", "Usr" FROM (SELECT usr AS "usr", name AS "Usr" FROM users) t
;;
SELECT usr AS "A", song AS "a" FROM plays WHERE k < 9
;;
SELECT usr AS "a.b", song AS "a""b", n AS " ", k AS "Größe (m²)", day AS "SELECT", ok AS "sum:x:ok" FROM plays WHERE k < 12 ORDER BY "Größe (m²)", "a.b"
;;
SELECT "t"."sum:n:ok" * 2 AS "x y", "t"."usr " FROM (SELECT usr AS "usr ", SUM(n) AS "sum:n:ok" FROM plays GROUP BY 1) AS "t" WHERE "t"."sum:n:ok" > 0
;;
SELECT j->>'a' AS x, j->>'A' AS y, count(*) AS c FROM (SELECT json_object('a', usr, 'A', ok) AS j FROM plays) GROUP BY j->>'a', j->>'A'
;;
SELECT DISTINCT ON (j->>'a') j->>'a' AS x, j->>'A' AS y FROM (SELECT json_object('a', usr, 'A', k) AS j FROM plays) ORDER BY j->>'a', (j->>'A')::INT
;;
SELECT json_object('a', usr, 'A', song) ->> 'a' AS x, count(*) AS c FROM plays GROUP BY x HAVING max(json_object('a', usr, 'A', song) ->> 'A') > 's2'
;;
SELECT strftime("at", '%M') AS mi, strftime("at", '%m') AS mo, count(*) AS c FROM events GROUP BY strftime("at", '%M'), strftime("at", '%m')
;;
SELECT replace(usr, 'U', 'x') AS a, replace(usr, 'u', 'x') AS b, count(*) FROM plays GROUP BY replace(usr, 'U', 'x'), replace(usr, 'u', 'x')
;;
SELECT u.usr, (SELECT count(*) FROM plays p JOIN songs s ON s.song = p.song WHERE p.usr = u.usr AND s.genre = 'rock') AS rock, (SELECT list(DISTINCT s.genre ORDER BY s.genre) FROM plays p, songs s WHERE s.song = p.song AND p.usr = u.usr) AS genres FROM users u
;;
SELECT p.k, (SELECT count(*) FROM plays q WHERE q.usr = p.usr AND q.k < p.k) AS prior, (SELECT max(q.day) FROM plays q WHERE q.usr = p.usr AND q.day < p.day) AS prev_day FROM plays p
;;
SELECT u.usr FROM users u WHERE 2 <= (SELECT count(DISTINCT p.song) FROM plays p WHERE p.usr = u.usr AND EXISTS (SELECT 1 FROM songs s WHERE s.song = p.song AND s.genre = 'jazz')) ORDER BY usr
;;
SELECT u.country, count(*) AS c FROM users u WHERE u.rank = (SELECT max(v.rank) FROM users v WHERE v.country IS NOT DISTINCT FROM u.country) GROUP BY u.country
;;
SELECT p.usr, p.k, p.n FROM plays p WHERE p.n = (SELECT max(q.n) FROM plays q WHERE q.usr = p.usr) ORDER BY p.usr, p.k
;;
SELECT e.usr, e."at", (SELECT p.k FROM plays p WHERE p.usr = e.usr AND p."at" <= e."at" ORDER BY p."at" DESC LIMIT 1) AS last_play FROM events e WHERE e.kind = 'buy'
;;
SELECT u.usr, (SELECT string_agg(x.song, ',' ORDER BY x.c DESC, x.song) FROM (SELECT p.song, count(*) AS c FROM plays p WHERE p.usr = u.usr GROUP BY p.song) x WHERE x.c > 1) AS fav FROM users u
;;
SELECT u.usr, t.* FROM users u CROSS JOIN LATERAL (SELECT count(*) AS c, min(p.n) AS mn, max(p.n) AS mx FROM plays p WHERE p.usr = u.usr) t ORDER BY u.usr
;;
SELECT u.usr, a.c, b.c AS c2 FROM users u JOIN LATERAL (SELECT count(*) AS c FROM plays p WHERE p.usr = u.usr) a ON a.c > 5 LEFT JOIN LATERAL (SELECT count(*) AS c FROM events e WHERE e.usr = u.usr HAVING count(*) > a.c) b ON true
;;
SELECT u.usr, u.name, p.k FROM users u LEFT JOIN plays p ON p.usr = u.usr AND p.day = '2024-05-03' AND u.country = 'TR' ORDER BY u.usr, p.k
;;
SELECT u.usr, p.k FROM users u LEFT JOIN plays p ON p.usr = u.usr WHERE p.k IS NULL OR p.n > 45 ORDER BY 1, 2
;;
SELECT u.usr, p.k, s.title FROM users u LEFT JOIN plays p ON p.usr = u.usr LEFT JOIN songs s ON s.song = p.song AND s.genre = 'jazz' WHERE u.country = 'FR' AND coalesce(s.title, 'none') <> 'T1'
;;
SELECT s.song, count(p.k) AS c FROM plays p RIGHT JOIN songs s ON s.song = p.song AND p.ok WHERE s.genre IS NOT NULL GROUP BY s.song ORDER BY c DESC, s.song
;;
SELECT a.usr AS u1, b.usr AS u2, a.c, b.c AS d FROM (SELECT usr, count(*) AS c FROM plays WHERE ok GROUP BY usr) a FULL OUTER JOIN (SELECT usr, count(*) AS c FROM plays WHERE NOT ok GROUP BY usr) b ON a.usr = b.usr AND a.c = b.c WHERE coalesce(a.usr, b.usr) LIKE 'u1%'
;;
SELECT a.k, b.id FROM plays a FULL JOIN nums b ON a.k = b.id AND a.n > 0 AND b.a > 0 WHERE a.k < 12 OR b.id < 0 OR a.k IS NULL
;;
SELECT p.k, n.id, n.b FROM plays p JOIN nums n ON p.k = n.id AND n.b = p.n WHERE n.b > 3
;;
SELECT * FROM (SELECT usr, n, row_number() OVER (PARTITION BY usr ORDER BY n DESC, k) AS r, count(*) OVER (PARTITION BY usr) AS c FROM plays) t WHERE usr = 'u5' AND r <= 2
;;
SELECT * FROM (SELECT usr, count(*) AS c, sum(n) AS s FROM plays GROUP BY ROLLUP (usr)) t WHERE usr = 'u5' OR usr IS NULL
;;
SELECT * FROM (SELECT usr, kind, count(*) AS c FROM events GROUP BY CUBE (usr, kind)) t WHERE usr = 'u5'
;;
SELECT * FROM (SELECT DISTINCT ON (usr) usr, song, k FROM plays ORDER BY usr, k) t WHERE song = 's3' OR k < 20
;;
SELECT * FROM (SELECT usr, k, n FROM plays ORDER BY n DESC NULLS LAST, k LIMIT 20) t WHERE usr > 'u3' ORDER BY k
;;
WITH t AS (SELECT usr, day, sum(n) AS s FROM plays GROUP BY usr, day) SELECT a.usr, a.day, a.s, b.s AS prev FROM t a LEFT JOIN t b ON b.usr = a.usr AND b.day = a.day - INTERVAL 1 DAY WHERE a.day = '2024-05-04'
;;
WITH t AS (SELECT usr, day, sum(n) AS s, count(*) AS c FROM plays GROUP BY usr, day) SELECT 'a' AS w, usr, s FROM t WHERE day = '2024-05-02' UNION ALL SELECT 'b', usr, c FROM t WHERE day = '2024-05-03' AND usr IN ('u1', 'u2', 'u3')
;;
SELECT x.usr, x.k FROM plays x WHERE x.usr IN (SELECT usr FROM events GROUP BY usr ORDER BY count(*) DESC, usr LIMIT 3) ORDER BY 1, 2
;;
SELECT usr, n FROM plays WHERE n > 10 AND k < 100
;;
SELECT usr, n FROM plays WHERE n > 10.5 AND k < 100
;;
SELECT usr, n FROM plays WHERE n > -10 AND k < 100.0
;;
SELECT usr, n FROM plays WHERE n > '10' AND k < '7'
;;
SELECT day, count(*) FROM plays WHERE day >= '2024-05-03' AND usr IN ('u1', 'u2') GROUP BY 1
;;
SELECT day, count(*) FROM plays WHERE day >= '2024-05-03 12:00:00' AND usr IN ('u1', 'u2') GROUP BY 1
;;
SELECT day, count(*) FROM plays WHERE day >= '2024-5-3' AND usr IN ('u1', NULL) GROUP BY 1
;;
SELECT k FROM plays WHERE "at" >= '2024-05-03' AND "at" < '2024-05-04' ORDER BY k
;;
SELECT k FROM plays WHERE "at" >= DATE '2024-05-03' AND "at" < '2024-05-03T12:00:00Z' ORDER BY k
;;
SELECT k FROM plays WHERE price > 500 AND price <= 501.5 OR price = 1e2 OR price = '77.10'
;;
SELECT usr FROM events WHERE (usr, "at") IN (SELECT usr, max("at") FROM events GROUP BY usr) AND kind = 'buy'
;;
SELECT usr, CASE WHEN usr = 'u1' THEN 1 WHEN usr IN ('u2', 'u3') THEN 2.5 ELSE NULL END AS x, CASE usr WHEN 'u4' THEN 'four' WHEN NULL THEN 'never' END AS y FROM users
;;
SELECT p.k, u.name, s.title FROM (plays p JOIN users u ON p.usr = u.usr) LEFT JOIN songs s ON s.song = p.song WHERE p.k < 30
;;
SELECT u.usr, p.k, s.title FROM users u LEFT JOIN (plays p JOIN songs s ON s.song = p.song AND s.genre = 'pop') ON p.usr = u.usr ORDER BY u.usr, p.k
;;
SELECT u2, k2 FROM plays AS p(k2, u2) WHERE k2 < 5 ORDER BY 2
;;
SELECT * FROM ("main"."users") "u" WHERE "u"."usr" < 'u12' ORDER BY 1
;;
SELECT * FROM (SELECT *, DENSE_RANK() OVER (ORDER BY z___min_rank) as z___pivot_row_rank, RANK() OVER (PARTITION BY z__pivot_col_rank ORDER BY z___min_rank) as z__pivot_col_ordering, CASE WHEN z___min_rank = z___rank THEN 1 ELSE 0 END AS z__is_highest_ranked_cell FROM (SELECT *, MIN(z___rank) OVER (PARTITION BY "events.usr") as z___min_rank FROM (SELECT *, RANK() OVER (ORDER BY CASE WHEN z__pivot_col_rank=1 THEN (CASE WHEN "events.count" IS NOT NULL THEN 0 ELSE 1 END) ELSE 2 END, CASE WHEN z__pivot_col_rank=1 THEN "events.count" ELSE NULL END DESC, "events.count" DESC, z__pivot_col_rank, "events.usr") AS z___rank FROM (SELECT *, DENSE_RANK() OVER (ORDER BY CASE WHEN "events.kind" IS NULL THEN 1 ELSE 0 END, "events.kind") AS z__pivot_col_rank FROM (SELECT events.kind AS "events.kind", events.usr AS "events.usr", COUNT(*) AS "events.count" FROM events GROUP BY 1, 2) ww ) bb WHERE z__pivot_col_rank <= 16384 ) aa ) xx ) zz WHERE (z__pivot_col_rank <= 50 OR z__is_highest_ranked_cell = 1) AND (z___pivot_row_rank <= 5 OR z__pivot_col_ordering = 1) ORDER BY z___pivot_row_rank
;;
SELECT u.country AS "u.country", COALESCE(COALESCE(CAST((SUM(DISTINCT (CAST(FLOOR(COALESCE(u.rank, 0) * (1000000 * 1.0)) AS DECIMAL(38,0))) + CAST(substr(md5(u.usr), 1, 6).ascii() AS DECIMAL(38,0)) * 1000000000) - SUM(DISTINCT CAST(substr(md5(u.usr), 1, 6).ascii() AS DECIMAL(38,0)) * 1000000000)) AS DOUBLE) / CAST((1000000 * 1.0) AS DOUBLE), 0), 0) AS r, COUNT(DISTINCT p.k) AS c FROM plays AS p LEFT JOIN users AS u ON p.usr = u.usr WHERE (u.country IS NOT NULL) GROUP BY 1 HAVING NOT (SUM(p.n)) IS NULL ORDER BY 2 DESC FETCH NEXT 500 ROWS ONLY
;;
select "users"."country" as "c0", sum("plays"."n") as "m0" from "users" as "users", "plays" as "plays" where "plays"."usr" = "users"."usr" and "users"."country" in ('DE', 'TR', 'FR') group by "users"."country" order by CASE WHEN "users"."country" IS NULL THEN 1 ELSE 0 END, "users"."country" ASC
;;
select a11.usr usr, max(a12.name) name, sum(a11.n) WJXBFS1, count(distinct a11.day) WJXBFS2 from plays a11 join users a12 on (a11.usr = a12.usr) where a11.day in (select c21.day from plays c21 where c21.n > 45) group by a11.usr
;;
SELECT FLOOR(EXTRACT(EPOCH FROM "at") / 86400) * 86400 AS time, kind AS metric, COUNT(*) AS value FROM events WHERE "at" BETWEEN '2024-05-02T00:00:00Z' AND '2024-05-07T12:00:00.000Z' GROUP BY 1, 2 ORDER BY 1, 2
;;
with rawdata as (with p as (select 0 as generated_number union all select 1), unioned as (select p0.generated_number * power(2, 0) + p1.generated_number * power(2, 1) + p2.generated_number * power(2, 2) + p3.generated_number * power(2, 3) + 1 as generated_number from p as p0 cross join p as p1 cross join p as p2 cross join p as p3) select * from unioned where generated_number <= 9 order by generated_number), all_periods as (select (cast('2024-05-01' as date) + ((row_number() over (order by generated_number) - 1) * interval '1 day')) as date_day from rawdata), filtered as (select * from all_periods where date_day <= cast('2024-05-08' as date)) select f.date_day, count(p.k) as c, count(distinct p.usr) as u from filtered f left join plays p on p.day = f.date_day group by 1 order by 1
;;
with row_numbered as (select _inner.*, row_number() over (partition by country order by born desc, usr) as rn from users as _inner) select distinct data.* from users as data natural join row_numbered where row_numbered.rn = 1
;;
with a as (select usr, song from plays where ok), b as (select usr, song from plays where n > 0), a_intersect_b as (select * from a intersect select * from b), a_except_b as (select * from a except select * from b), b_except_a as (select * from b except select * from a), all_records as (select *, true as in_a, true as in_b from a_intersect_b union all select *, true as in_a, false as in_b from a_except_b union all select *, false as in_a, true as in_b from b_except_a), summary_stats as (select in_a, in_b, count(*) as count from all_records group by 1, 2) select *, round(100.0 * count / sum(count) over (), 2) as percent_of_total from summary_stats order by in_a desc, in_b desc
;;
with a_minus_b as (select usr from plays except select usr from events), b_minus_a as (select usr from events except select usr from plays), unioned as (select 'a_minus_b' as which_diff, a_minus_b.* from a_minus_b union all select 'b_minus_a' as which_diff, b_minus_a.* from b_minus_a) select * from unioned
;;
with x as (select usr, null as a, cast(null as varchar) as b, null::int as c from plays union all select usr, kind, kind, 1 from events) select usr, count(a) as ca, max(b) as mb, sum(c) as sc from x group by usr
;;
with x as (select usr, null as nothing, '' as blank, 0 as zero from users) select coalesce(nothing, 'x') as a, nothing is null as b, blank || usr as c, zero / 2 as d, max(nothing) over () as e from x order by c
;;
select null as x, usr, count(*) as c from plays group by 1, 2 having count(*) > 8
;;
select e.usr, x.id, x.t from events e left join empty x on x.t = e.usr where e.kind = 'buy' and e.usr = 'u1'
;;
select coalesce(t, 'none') as t, count(*) as c from empty full join (select usr from users) u on u.usr = empty.t group by 1
;;
select count(*) as c, sum(id) as s, max(t) as m, avg(v) as a, list(t) as l, string_agg(t, ',') as sa, count(distinct t) as d, median(v) as md, bool_or(v > 1) as b, arg_max(t, v) as am, first(t order by id) as f from empty
;;
select u.usr, (select count(*) from empty x where x.t = u.usr) as c, (select max(v) from empty x where x.t = u.usr) as m, exists (select 1 from empty) as e, u.rank not in (select id from empty) as n from users u
;;
select user_, count(*) as version from (select usr as user_, day as current_day from plays) group by user_ order by version desc, user_ limit 4
;;
select "user", "date", "value" from (select usr as "user", day as "date", n as "value", k as "index" from plays) where "index" < 6
;;
select t.date, t.count, t.year from (select day as date, count(*) as count, year(day) as year from plays group by day) t order by t.date nulls first
;;
select usr as name, count(*) as count, min(n) as min, max(n) as max, sum(n) as sum from plays group by name order by count desc, name limit 5
;;
select count, sum, count + sum as total from (select count(*) as count, sum(n) as sum from plays group by usr) where count > 10
;;
select * from (select usr, count(*) over (partition by usr) as cnt, k from plays) where cnt = (select max(c) from (select count(*) as c from plays where usr is not null group by usr)) order by k
;;
select usr, "at"::date as d, min("at") as first, max("at") as last, extract(epoch from max("at") - min("at"))::bigint as secs from events group by 1, 2 having count(*) > 2 order by secs desc, usr, d
;;
select date_trunc('month', born) + interval '1 month' - interval '1 day' as eom, count(*) as c from users group by 1 order by 1 desc nulls last limit 5
;;
select extract(year from age(date '2024-05-01', born)) as age, case when extract(year from age(date '2024-05-01', born)) < 30 then '<30' when date_diff('year', born, date '2024-05-01') between 30 and 49 then '30-49' else '50+' end as grp, usr from users where born is not null
;;
select strftime(date_trunc('quarter', born), '%Y-Q') || quarter(born) as q, count(*) as c from users group by all having q is not null order by q
;;
with d as (select day, sum(n) as s from plays where day is not null group by day) select a.day, a.s, sum(b.s) as running from d a join d b on b.day <= a.day group by a.day, a.s order by a.day
;;
with d as (select day, sum(n) as s from plays where day is not null group by day) select day, s, (select sum(s) from d x where x.day <= d.day) as running, (select avg(s) from d x where x.day between d.day - 2 and d.day)::decimal(10, 2) as ma from d order by day
;;
with d as (select usr, count(*) as c from plays group by usr) select usr, c, (select count(*) from d x where x.c > d.c) + 1 as rnk, c > (select avg(c) from d) as above from d order by rnk, usr
;;
select usr, k, n, sum(n) over (partition by usr order by k rows between unbounded preceding and current row) as run, n * 1.0 / sum(n) over (partition by usr) as share, max(n) over (partition by usr order by k rows between 2 preceding and 1 preceding) as prev2 from plays where usr in ('u1', 'u2') order by usr, k
;;
select usr, min(k) as a, max(k) as b, count(*) as len from (select usr, k, n, sum(chg) over (partition by usr order by k) as grp from (select usr, k, n, case when (n > 0) is not distinct from lag(n > 0) over (partition by usr order by k) then 0 else 1 end as chg from plays)) group by usr, grp having count(*) > 2 order by usr, a
;;
with e as (select usr, "at", kind, v, row_number() over (partition by usr order by "at") as rn, count(*) over (partition by usr) as c from events), f as (select usr, max(case when rn = 1 then kind end) as first_kind, max(case when rn = c then kind end) as last_kind, max(c) as c from e group by usr) select first_kind, last_kind, count(*) as users, sum(c) as events from f group by cube (first_kind, last_kind) order by all
;;
with w as (select usr, date_trunc('week', "at") as wk, count(*) as c from events group by 1, 2), l as (select *, lead(wk) over (partition by usr order by wk) as nxt from w) select wk, count(*) as active, count(nxt) filter (where nxt = wk + interval 7 day) as retained, round(100.0 * count(nxt) / count(*), 1) as pct from l group by wk order by wk
;;
select kind, count(*) as c, bar(count(*), 0, 200, 10) as b, round(count(*) / sum(count(*)) over (), 3) as p, printf('%.1f%%', 100.0 * count(*) / sum(count(*)) over ()) as t from events group by kind
;;
select least(n, 0) as l, greatest(n, 10, null) as g, n % 7 as m, n // 7 as d, abs(n) as a, sign(n) as s, n ** 2 as p, round(n / 7, 2) as r, trunc(n / 7.0) as t, ceil(n / 7) as c, n & 3 as b, xor(n, 5) as x, @n as ab, n::double / 0 as z from plays where k < 40
;;
select case when v < 20 then 0 when v < 40 then 1 else 2 end::varchar || '-' || coalesce(kind, 'x') as key, count(*) as c, max("at")::date as d from events where v is not null group by key order by key
;;
select (n / 10)::int as b, count(*) as c, string_agg(k::varchar, '|' order by k) as ks from plays where n > 30 group by (n / 10)::int order by b
;;
select day::timestamp as d, day::varchar as s, cast(cast(day as varchar) as date) = day as same, cast(n as varchar) || '%' as pct, cast(price as int) as pi, cast(cast(price as double) as decimal(10, 1)) as pd, cast(ok as int) as oi, cast(k as varchar(2)) as kv from plays where k between 90 and 110
;;
select try_cast(name as int) as a, try_cast(substr(usr, 2) as int) as b, cast(substr(usr, 2) as double) / 3 as c, lpad(substr(usr, 2), 3, '0') as d, usr < 'u2' as e, usr[1:1] as f, usr[-1] as g, len(name) as h, hash(usr) = hash(usr) as i from users
;;
select list_sort(list(distinct country)) as l, array_agg(distinct rank order by rank desc) as r, list(usr order by rank nulls first, usr)[:3] as f, max(struct_pack(r := rank, u := usr)) as m, count(distinct (country, rank)) as c from users where rank is not null
;;
select country, (list(usr order by rank desc, usr))[1] as top, list_transform(list(usr order by usr), lambda x: upper(x)) as u, list_filter(list(rank order by usr), lambda x: x > 3) as r, list_zip(list(usr order by usr), list(rank order by usr))[1] as z from users where rank is not null group by country
;;
select map_entries(histogram(rank)) as h, map_keys(map_from_entries(list((usr, rank) order by usr))) as k from users where country = 'DE'
;;
select unnest(map_keys(h)) as key, unnest(map_values(h)) as c from (select histogram(kind) as h from events)
;;
select usr, unnest(list_distinct(list(kind order by kind))) as kind from events where usr < 'u12' group by usr order by usr, kind
;;
select usr, kind from (select usr, unnest(kinds) as kind from (select usr, list(distinct kind) as kinds from events group by usr)) where kind = 'buy' order by usr
;;
select t.k, t.tag, count(*) over (partition by t.tag) as c from (select k, unnest(tags) as tag from plays) t qualify row_number() over (partition by t.tag order by t.k) = 1 order by t.tag
;;
select a.tag as x, b.tag as y, count(distinct a.k) as c from (select k, unnest(tags) as tag from plays) a join (select k, unnest(tags) as tag from plays) b on a.k = b.k and a.tag < b.tag group by all order by c desc, x, y
;;
select k, [t for t in tags if t is not null] as a, list_aggregate(list_sort(tags), 'string_agg', '+') as b, tags || ['z'] as c, ('a' in tags) as d from plays where tags is not null and k < 50
;;
select json_object('total', count(*), 'users', count(distinct usr), 'by', (select json_group_object(kind, c) from (select coalesce(kind, '-') as kind, count(*) as c from events group by 1 order by 1))) as j from plays
;;
select usr, json_extract(j, '$.n')::int as n, json_extract_string(j, '$.t[0]') as t0, j->>'$.s.y' as y, json_keys(j) as ks from (select usr, json_object('n', n, 't', tags, 's', s) as j from plays)
;;
select id, tz at time zone 'Europe/Berlin' as b, (tz at time zone 'Europe/Berlin')::date as d, date_trunc('hour', tz at time zone 'Asia/Kathmandu') as h, strftime(tz at time zone 'America/Los_Angeles', '%a %d %b %H:%M') as f, extract(isodow from tz at time zone 'Asia/Tokyo') as w from nums where id > 20
;;
select (tz at time zone 'Europe/Istanbul')::date as d, count(*) as c, min(tz) as a, max(tz)::varchar as b from nums group by 1 order by 1
;;
select time_bucket(interval '1 day', tz, 'Europe/Berlin') as b, count(*) as c from nums group by 1 order by 1
;;
SELECT count(*) AS c, sum(n) AS s FROM plays GROUP BY true
;;
SELECT count(*) AS c, NULL AS x FROM plays GROUP BY NULL
;;
SELECT max(rn) AS m FROM (SELECT row_number() OVER (ORDER BY (SELECT NULL)) AS rn, k FROM plays)
;;
SELECT * FROM (SELECT usr, ROW_NUMBER() OVER (PARTITION BY usr ORDER BY (SELECT 1)) AS rn FROM plays) WHERE rn = 3
;;
SELECT usr, count(*) AS c, rank() OVER (ORDER BY c DESC) AS r, sum(c) OVER () AS t FROM plays GROUP BY usr ORDER BY r, usr
;;
SELECT n % 3 AS g, sum(g) AS s, count(g) AS c FROM plays GROUP BY g
;;
SELECT n * 2 AS d, sum(d) OVER (ORDER BY k) AS r, d / 2 AS h FROM plays WHERE d > 20
;;
SELECT upper(usr) AS usr, usr AS x, usr || '!' AS y FROM plays WHERE usr = 'u1'
;;
SELECT n * 2 AS d, (SELECT count(*) FROM nums WHERE id > d) AS c FROM plays WHERE k < 10
;;
SELECT s.len, p.s.x, p.s.y AS y FROM plays p JOIN songs s USING (song) WHERE p.k < 30 AND s.len > 200
;;
SELECT * FROM plays p JOIN users u USING (usr) JOIN songs s USING (song) WHERE p.k < 9 ORDER BY p.k
;;
SELECT p.*, u.* FROM plays p JOIN users u USING (usr) WHERE p.k < 9 ORDER BY p.k
;;
SELECT * EXCLUDE (usr) FROM plays p JOIN users u USING (usr) WHERE p.k < 9 ORDER BY p.k
;;
SELECT * EXCLUDE (p.usr, raw) FROM plays p JOIN users u ON p.usr = u.usr WHERE p.k < 9
;;
SELECT u.* EXCLUDE (born) REPLACE (upper(name) AS name), p.k FROM plays p JOIN users u ON p.usr = u.usr WHERE p.k < 9
;;
SELECT * LIKE 's%' FROM plays WHERE k < 9
;;
SELECT * ILIKE '%A%', k FROM plays WHERE k < 9
;;
SELECT COALESCE(*COLUMNS(['n', 'k'])) AS c, greatest(*COLUMNS(['n', 'k'])) AS g FROM plays WHERE k < 20
;;
SELECT k FROM plays WHERE COLUMNS(['n', 'usr', 'ok']) IS NOT NULL AND k < 40
;;
SELECT count(COLUMNS(*)) FROM plays
;;
SELECT min(COLUMNS(u.*)) FROM users u
;;
SELECT usr, max(COLUMNS(['n', 'k'])) AS "max_\0" FROM plays GROUP BY usr ORDER BY usr
;;
SELECT * FROM (SELECT usr, kind, "at"::DATE::VARCHAR AS d, v FROM events WHERE "at" < '2024-05-03') PIVOT (count(*) AS c, max(v) AS m FOR kind IN ('buy', 'view') d IN ('2024-05-01', '2024-05-02') GROUP BY usr)
;;
PIVOT (SELECT usr, kind, v FROM events) ON kind || '_x' IN ('buy_x', 'view_x') USING count(*) GROUP BY usr
;;
PIVOT (SELECT u.country AS c, e.kind AS k, e.v AS v FROM events e, users u WHERE u.usr = e.usr) ON k IN ('buy', 'click') USING count(*) AS n, max(v) AS m GROUP BY c
;;
PIVOT (FROM events SELECT usr, kind) ON kind USING count(*) GROUP BY usr
;;
WITH e AS (SELECT usr, kind, v FROM events WHERE kind IS NOT NULL) PIVOT e ON kind USING round(sum(v), 1) AS s GROUP BY usr
;;
SELECT usr, buy_c, view_c FROM (PIVOT events ON kind IN ('buy', 'view') USING count(*) AS c GROUP BY usr) WHERE buy_c > 3
;;
SELECT * FROM events PIVOT (count(v) FOR kind IN ('buy', 'view') GROUP BY usr) AS p (u, b, w) WHERE b > 3
;;
SELECT p.usr, u.name, p.buy FROM (PIVOT events ON kind IN ('buy') USING count(*) GROUP BY usr) p JOIN users u ON u.usr = p.usr
;;
UNPIVOT (SELECT usr, count(*) AS c, sum(n) AS s FROM plays GROUP BY usr) ON COLUMNS(* EXCLUDE (usr)) INTO NAME m VALUE v
;;
UNPIVOT (SELECT k, n, s.x AS x, price FROM plays WHERE k < 5) ON n::DECIMAL(10, 2) AS n, x::DECIMAL(10, 2) AS x, price::DECIMAL(10, 2) AS p INTO NAME m VALUE v
;;
SELECT * FROM (SELECT usr, min(n) AS a, max(n) AS b, min(k)::INT AS c, max(k)::INT AS d FROM plays GROUP BY usr) UNPIVOT ((lo, hi) FOR w IN ((a, b) AS 'n', (c, d) AS 'k')) WHERE usr = 'u1'
;;
SELECT m, count(*) AS c FROM (UNPIVOT (SELECT k, usr, song FROM plays) ON usr, song INTO NAME m VALUE v) GROUP BY m
;;
SELECT u.country, t.m, t.v FROM users u JOIN (UNPIVOT (SELECT usr, count(*) AS c, count(n) AS d FROM plays GROUP BY usr) ON c, d INTO NAME m VALUE v) t USING (usr)
;;
SELECT usr, k FROM plays WHERE k = (SELECT max(k) FROM plays q WHERE q.usr = plays.usr) ORDER BY usr
;;
SELECT (SELECT max(k) FROM plays) - k AS d FROM plays ORDER BY d LIMIT 3
;;
SELECT usr FROM plays p GROUP BY usr HAVING NOT EXISTS (SELECT 1 FROM events e WHERE e.usr = p.usr AND e.kind = 'buy') ORDER BY 1
;;
SELECT usr, sum(n) AS s, (SELECT count(*) FROM (SELECT usr, sum(n) AS s2 FROM plays GROUP BY usr) x WHERE x.s2 > sum(p.n)) AS better FROM plays p GROUP BY usr
;;
SELECT u.usr, (SELECT array_agg(k ORDER BY k) FROM (SELECT k FROM plays p WHERE p.usr = u.usr ORDER BY k DESC LIMIT 3)) AS last3 FROM users u
;;
SELECT u.usr, (SELECT count(*) FROM plays p WHERE p.usr = u.usr UNION ALL SELECT 0 LIMIT 1) >= 0 AS c FROM users u WHERE u.usr < 'u11'
;;
SELECT u.usr, (WITH x AS (SELECT song, count(*) AS c FROM plays p WHERE p.usr = u.usr GROUP BY song) SELECT max(c) FROM x) AS m FROM users u
;;
SELECT a.usr, b.usr AS other FROM users a JOIN users b ON a.country = b.country AND a.usr < b.usr AND abs(a.rank - b.rank) <= 1 ORDER BY 1, 2
;;
SELECT u.usr, p.c FROM users u JOIN (SELECT usr, count(*) AS c FROM plays GROUP BY usr) p ON u.usr = p.usr AND p.c > (SELECT avg(c) FROM (SELECT count(*) AS c FROM plays GROUP BY usr)) ORDER BY p.c DESC, u.usr
;;
SELECT p.k FROM plays p WHERE EXISTS (SELECT 1 FROM events e WHERE e.usr = p.usr AND e."at" BETWEEN p."at" AND p."at" + INTERVAL 1 HOUR) AND NOT EXISTS (SELECT 1 FROM events e WHERE e.usr = p.usr AND e."at" BETWEEN p."at" - INTERVAL 1 HOUR AND p."at")
;;
SELECT e.usr, e."at", e.v, (SELECT avg(x.v) FROM events x WHERE x.usr = e.usr AND x."at" < e."at")::DECIMAL(10, 3) AS prior_avg FROM events e WHERE e.kind = 'buy'
;;
SELECT e.usr, e."at", n."at" AS next_at FROM events e LEFT JOIN LATERAL (SELECT x."at" FROM events x WHERE x.usr = e.usr AND x."at" > e."at" AND x.kind = 'buy' ORDER BY x."at" LIMIT 1) n ON true WHERE e.kind = 'click'
;;
SELECT country, usr, c FROM (SELECT u.country, u.usr, count(p.k) AS c FROM users u LEFT JOIN plays p USING (usr) GROUP BY ALL) QUALIFY c = max(c) OVER (PARTITION BY country) ORDER BY ALL
;;
SELECT u.country, t.song, t.c FROM (SELECT DISTINCT country FROM users) u, LATERAL (SELECT p.song, count(*) AS c FROM plays p JOIN users x ON x.usr = p.usr WHERE x.country = u.country GROUP BY p.song ORDER BY c DESC, p.song LIMIT 2) t ORDER BY u.country, t.c DESC, t.song
;;
SELECT * FROM (SELECT day, usr, sum(n) AS s FROM plays GROUP BY GROUPING SETS ((day, usr), (day), ())) t WHERE day = '2024-05-03' AND usr IS NULL
;;
SELECT coalesce(day::VARCHAR, 'total') AS d, ok, count(*) AS c FROM plays WHERE day IS NOT NULL AND ok IS NOT NULL GROUP BY GROUPING SETS ((day, ok), (ok), ()) ORDER BY GROUPING(day), day, ok
;;
SELECT grouping(usr, kind) AS g, count(*) AS n, sum(c) AS s FROM (SELECT usr, kind, count(*) AS c FROM events GROUP BY 1, 2) GROUP BY CUBE (usr, kind) HAVING grouping(usr, kind) > 0 ORDER BY g, s, n LIMIT 3
;;
SELECT day, sum(n) AS s, sum(sum(n)) OVER (ORDER BY day ROWS UNBOUNDED PRECEDING) AS run, 100 * sum(n) / sum(sum(n)) OVER () AS pct, grouping(day) AS g FROM plays WHERE day IS NOT NULL GROUP BY ROLLUP (day) ORDER BY g, day
;;
SELECT usr, ok, count(*) AS c, row_number() OVER (PARTITION BY grouping(ok) ORDER BY count(*) DESC, usr, ok) AS r FROM plays GROUP BY GROUPING SETS ((usr), (usr, ok)) QUALIFY r <= 2
;;
SELECT x, y, count(*) AS c FROM (SELECT usr AS x, song AS y FROM plays UNION ALL SELECT song, usr FROM plays) GROUP BY ROLLUP (x, y) HAVING count(*) > 3
;;
WITH t AS (SELECT k, usr, unnest(tags) AS tag FROM plays), c AS (SELECT tag, count(*) AS c FROM t GROUP BY tag), u AS (SELECT usr, count(*) AS p FROM plays GROUP BY usr), r AS (SELECT t.usr, t.tag, c.c, u.p FROM t JOIN c USING (tag) JOIN u ON u.usr = t.usr) SELECT usr, tag, count(*) AS n, max(c) AS c, max(p) AS p FROM r GROUP BY ALL ORDER BY ALL
;;
WITH t AS (SELECT usr, count(*) AS c FROM plays GROUP BY usr), p AS (PIVOT (SELECT usr, kind FROM events) ON kind IN ('buy', 'view') USING count(*) GROUP BY usr) SELECT t.usr, t.c, p.buy, p.view, u.name FROM t LEFT JOIN p ON p.usr = t.usr LEFT JOIN users u ON u.usr = t.usr ORDER BY t.usr
;;
SELECT 1 AS one, 'x' AS x, NULL AS n, tag, count(*) AS c FROM (SELECT unnest(tags) AS tag FROM plays WHERE usr IN (SELECT usr FROM users WHERE country = 'DE')) GROUP BY tag
;;
SELECT p.k, t.tag, (SELECT count(*) FROM plays q WHERE q.usr = p.usr) AS c FROM plays p, unnest(p.tags) t(tag) WHERE EXISTS (SELECT * FROM users u WHERE u.usr = p.usr AND u.country = 'TR') ORDER BY p.k, t.tag, c
;;
SELECT usr, COLUMNS('c') FROM (SELECT usr, count(*) AS c, count(n) AS cn FROM plays WHERE usr IN (SELECT usr FROM events WHERE kind = 'buy' GROUP BY usr HAVING count(*) > 3) GROUP BY usr)
;;
SELECT name COLLATE NOCASE AS nm, c FROM users u JOIN (SELECT usr, count(*) AS c FROM plays GROUP BY usr) p USING (usr) ORDER BY nm, c, usr LIMIT 8
