SELECT count(*), count(usr), count(DISTINCT usr), count(DISTINCT usr) FILTER (WHERE ok), count(*) FILTER (WHERE ok IS NULL), sum(DISTINCT n), avg(DISTINCT n) FROM plays
;;
SELECT usr, count(DISTINCT song) AS c, count(DISTINCT (song, day)) AS p, count(DISTINCT k % 7) FILTER (WHERE n > 0) AS f FROM plays GROUP BY usr
;;
SELECT sum(ok), sum(ok::INTEGER), avg(ok::INTEGER), typeof(sum(ok)), count_if(ok), typeof(count_if(ok)), bool_and(ok), bool_or(ok) FROM plays
;;
SELECT typeof(sum(n)), typeof(sum(k)), typeof(sum(price)), typeof(avg(price)), typeof(avg(day)), typeof(avg("at")), typeof(sum(score)), typeof(max(s)), typeof(min(price)) FROM plays
;;
SELECT typeof(sum(a)), typeof(sum(b)), typeof(avg(b)), typeof(sum(f)), typeof(avg(f)), typeof(min(f)), typeof(max(tz)), typeof(bit_or(b)), typeof(sum(id)), typeof(product(b)) FROM nums
;;
SELECT sum(a), avg(a), min(a), max(a), sum(a) FILTER (WHERE a > 0), sum(a) FILTER (WHERE a < 0), count(DISTINCT a), sum(DISTINCT a) FROM nums
;;
SELECT b % 4 AS g, sum(a)::VARCHAR AS s, avg(a) AS m, sum(a) / count(a) AS q, sum(a) // count(a) AS i FROM nums GROUP BY g
;;
SELECT count(*), count(id), sum(v), avg(v), min(t), max(t), list(v), string_agg(t, ','), bool_and(v > 0), bit_or(id), histogram(t), median(v), mode(t), first(t), any_value(id), count(DISTINCT t), stddev(v), corr(v, id) FROM empty
;;
SELECT t, count(*), sum(v) FROM empty GROUP BY t
;;
SELECT count(*), sum(v), coalesce(sum(v), -1), coalesce(max(t), 'none'), count(*) = 0 FROM empty HAVING count(*) = 0
;;
SELECT 'x' AS c, count(*) FROM empty GROUP BY c
;;
SELECT id, t, count(*), grouping(id, t) FROM empty GROUP BY ROLLUP (id, t)
;;
SELECT count(*), grouping_id(t) FROM empty GROUP BY GROUPING SETS ((), (t), ())
;;
SELECT count(*), sum(n), max(usr) FROM plays WHERE k = -1
;;
SELECT sum(n), count(*), list(k), min(price), bit_xor(k) FROM plays WHERE false
;;
SELECT count(*) FROM plays WHERE k IN (3, 5, 5, NULL, 900)
;;
SELECT max(n), min(n), sum(n), avg(n), count(n), count(*), bool_or(ok), string_agg(usr, ',') FROM plays WHERE n IS NULL AND ok IS NULL AND usr IS NULL
;;
SELECT usr, sum(n) AS s, sum(n) IS NULL AS isnull, count(n), count(*) FROM plays WHERE n IS NULL GROUP BY usr
;;
SELECT song, sum(price) FILTER (WHERE price > 900), avg(price) FILTER (WHERE ok), min(price) FILTER (WHERE NOT ok), count(*) FILTER (WHERE price IS NULL) FROM plays GROUP BY song
;;
SELECT ok, sum(n) FILTER (WHERE n > 0) - sum(n) FILTER (WHERE n < 0) AS spread, sum(n) FILTER (WHERE n > 0) / nullif(count(*) FILTER (WHERE n < 0), 0) AS r FROM plays GROUP BY ok
;;
SELECT sum(DISTINCT n) FILTER (WHERE ok), sum(n) FILTER (WHERE ok), count(DISTINCT n) FILTER (WHERE NOT ok), sum(DISTINCT price), sum(DISTINCT n % 5), avg(DISTINCT n % 5) FROM plays
;;
SELECT day, count(DISTINCT usr) + count(DISTINCT song) AS c, count(DISTINCT usr) * 100 // nullif(count(usr), 0) AS pct FROM plays GROUP BY day HAVING count(DISTINCT usr) > 3
;;
SELECT usr, string_agg(DISTINCT song, '|' ORDER BY song DESC) FROM plays GROUP BY usr
;;
SELECT usr, string_agg(song, ', ' ORDER BY n NULLS LAST, k) AS a, string_agg(coalesce(song, '?'), '' ORDER BY k DESC) AS b, string_agg(song, ';' ORDER BY k) FILTER (WHERE n > 10) AS c FROM plays GROUP BY usr
;;
SELECT string_agg(k::VARCHAR, '-' ORDER BY k % 7, k DESC) FROM plays WHERE k < 40
;;
SELECT group_concat(kind, '/' ORDER BY usr, "at") FROM events WHERE usr IN ('u1', 'u7', 'u13')
;;
SELECT usr, list(k ORDER BY n DESC NULLS LAST, k), list(n ORDER BY k), list(DISTINCT ok ORDER BY ok NULLS FIRST), array_agg(song ORDER BY k) FILTER (WHERE song > 's2') FROM plays GROUP BY ALL
;;
SELECT ok, list({'k': k, 'n': n} ORDER BY n NULLS FIRST, k DESC)[1:3] AS firsts, len(list(k)) AS c, list_sum(list(n)) AS s, list_sort(list(DISTINCT day))[1] AS d FROM plays GROUP BY ok
;;
SELECT usr, first(n ORDER BY k), last(n ORDER BY k), any_value(n ORDER BY k), first(song ORDER BY "at" NULLS LAST, k), last(day ORDER BY k DESC) FROM plays GROUP BY usr
;;
SELECT first(usr ORDER BY k DESC), last(usr ORDER BY k DESC), any_value(usr ORDER BY k DESC), first(k ORDER BY k DESC) FILTER (WHERE ok), last(tags ORDER BY k), first(s ORDER BY k) FROM plays
;;
SELECT usr, arg_min(n, k), arg_max(n, k), arg_min_null(n, k), arg_max_null(n, k), min_by(song, k), max_by(song, k) FROM plays GROUP BY usr
;;
SELECT ok, arg_max(k, k, 3), arg_min(n, k, 4), max(n, 3), min(price, 2), max(day, 2), max(usr, 2) FROM plays GROUP BY ok
;;
SELECT min(n, 5), max(n, 5), min(song, 3), max("at", 2), arg_max(usr, k, 200)[1:5], arg_min(k, {'n': n, 'k': k}, 3) FROM plays
;;
SELECT max(v, 3), min(t, 2), arg_max(id, v, 2), arg_min(t, id) FROM empty
;;
SELECT arg_min(k, {'n': n, 'k': k}) AS a, arg_max(k, {'n': n, 'k': k}) FILTER (WHERE n IS NOT NULL) AS b, arg_max({'u': usr, 's': song}, k) AS c FROM plays
;;
SELECT country, arg_max(name, {'r': rank, 'u': usr}) FILTER (WHERE rank IS NOT NULL) AS top, arg_min(usr, usr) AS lo, max(rank) - min(rank) AS gap FROM users GROUP BY country
;;
SELECT median(n), quantile_disc(n, 0.25), quantile_cont(n, 0.75), quantile_cont(n, [0, 0.1, 0.5, 1]), quantile_disc(n, [0.9, 0.1]), quantile_disc(usr, 0.5), quantile_disc(price, 0.5), quantile_cont(price, 0.5) FROM plays
;;
SELECT ok, median(n), median(day), quantile_cont("at", 0.5), quantile_disc("at", [0.25, 0.75]), median(price), quantile_disc(song, [0.0, 1.0]) FROM plays GROUP BY ok
;;
SELECT usr, percentile_cont(0.5) WITHIN GROUP (ORDER BY n DESC) AS c, percentile_disc(0.3) WITHIN GROUP (ORDER BY n DESC) AS d, percentile_disc(0.3) WITHIN GROUP (ORDER BY n) AS e FROM plays GROUP BY usr
;;
SELECT median(DISTINCT n), quantile_disc(DISTINCT n, 0.5), median(n) FILTER (WHERE ok), median(n) - avg(n)::INTEGER FROM plays
;;
SELECT mad(n), mad(k), mad(day), mad("at") FROM plays
;;
SELECT usr, mode(usr) AS same, mode(CASE WHEN k < 120 THEN 'low' ELSE NULL END) AS lows, mode(DISTINCT usr) AS d FROM plays GROUP BY usr
;;
SELECT mode(CASE WHEN k % 10 < 6 THEN 'a' WHEN k % 10 < 9 THEN 'b' ELSE 'c' END), mode() WITHIN GROUP (ORDER BY CASE WHEN k < 150 THEN 1 ELSE 2 END) FROM plays
;;
SELECT bit_and(k), bit_or(k), bit_xor(k), bit_xor(n), bit_or(n), bit_and(n), bit_xor(DISTINCT n), bit_or(k) FILTER (WHERE ok) FROM plays
;;
SELECT ok, bit_and(k | 128), bit_xor(n), bitstring_agg(k % 16, 0, 15), bit_count(bitstring_agg(k, 0, 199)) FROM plays GROUP BY ok
;;
SELECT bool_and(n > -51), bool_or(n > 50), bool_and(ok OR NOT ok), bool_and(ok) FILTER (WHERE ok), bool_or(NULL::BOOLEAN), bool_and(k >= 0) AND bool_or(k = 199) FROM plays
;;
SELECT usr, bool_and(ok), bool_or(ok), NOT bool_or(ok) AS nn, bool_and(ok IS NOT NULL) FROM plays GROUP BY usr HAVING bool_or(ok) IS DISTINCT FROM bool_and(ok)
;;
SELECT round(corr(n, k), 6), round(covar_pop(n, k), 3), round(covar_samp(n, price), 3), round(regr_slope(n, k), 6), round(regr_intercept(n, k), 3), regr_count(n, price), round(regr_r2(n, k), 6), round(regr_avgx(n, price), 3), round(regr_avgy(n, price), 3), round(regr_sxx(n, k), 1), round(regr_sxy(n, k), 1), round(regr_syy(n, k), 1) FROM plays
;;
SELECT ok, round(stddev(n), 4), round(stddev_pop(n), 4), round(var_samp(n), 3), round(var_pop(n), 3), round(variance(price), 0), round(sem(n), 4), round(skewness(n), 4), round(kurtosis(n), 4), round(kurtosis_pop(n), 4) FROM plays GROUP BY ok
;;
SELECT usr, round(stddev_samp(n), 3), var_pop(n) IS NULL, round(stddev_pop(DISTINCT n), 3), round(corr(n, k) FILTER (WHERE ok), 4) FROM plays WHERE k < 30 GROUP BY usr
;;
SELECT round(entropy(usr), 6), round(entropy(ok), 6), round(geomean(abs(n) + 1), 4), round(fsum(price), 2), round(favg(n), 5), round(kahan_sum(v), 2) FROM plays JOIN (SELECT 1 AS v) ON true
;;
SELECT sum("at" - TIMESTAMP '2024-05-01') AS i, avg("at" - TIMESTAMP '2024-05-01') IS NOT NULL AS a, max("at" - TIMESTAMP '2024-05-01') AS m, typeof(sum("at" - TIMESTAMP '2024-05-01')) AS t FROM plays
;;
SELECT usr, sum(to_days(n)) AS d, sum(to_hours(k)) AS h, min(to_minutes(n)) AS mi FROM plays GROUP BY usr
;;
SELECT kind, avg("at"), min("at"), max("at"), max("at") - min("at"), avg("at")::DATE FROM events GROUP BY kind
;;
SELECT avg(day), avg(born), min(born), max(day) - min(day) FROM plays LEFT JOIN users USING (usr)
;;
SELECT avg(tz), min(tz), max(tz), count(tz), arg_max(id, tz), max(tz) - min(tz) FROM nums
;;
SELECT min(tags), max(tags), min(s), max(s), min(raw), max(raw), min(s.x), max(s.y), max(s['x']), min(len(tags)), max(cardinality(m)) FROM plays
;;
SELECT count(s), count(s.x), count(DISTINCT s), count(DISTINCT s.y), count(tags), count(DISTINCT tags), count(raw), count(DISTINCT raw), count(DISTINCT m), count((usr, song)), count(DISTINCT (usr, song)) FROM plays
;;
SELECT s, count(*), sum(s.x) FROM plays GROUP BY s
;;
SELECT tags, count(*), min(k), count(DISTINCT ok) FROM plays GROUP BY tags HAVING count(*) > 1
;;
SELECT m, count(*) AS c, max(k) FROM plays GROUP BY m ORDER BY c DESC, max(k) LIMIT 4
;;
SELECT raw, count(*) FROM plays GROUP BY raw HAVING count(*) > 1
;;
SELECT abs(score) AS a, count(*) AS c FROM plays GROUP BY abs(score) HAVING count(*) > 1 OR isnan(a) OR isinf(a)
;;
SELECT count(DISTINCT score), max(score), min(score), count(*) FILTER (WHERE score > 1e300), count(*) FILTER (WHERE score = 'nan'), count(*) FILTER (WHERE score = 0), round(sum(score) FILTER (WHERE isfinite(score)), 3), round(avg(score) FILTER (WHERE isfinite(score)), 6) FROM plays
;;
SELECT isnan(sum(score)), isnan(avg(score)), isinf(sum(score) FILTER (WHERE NOT isnan(score))) FROM plays
;;
SELECT histogram(ok), histogram(song), map_keys(histogram(usr)), histogram(n // 25) FROM plays
;;
SELECT usr, histogram(kind), histogram(hour("at") // 6) FROM events GROUP BY usr
;;
SELECT ok, histogram(n, [-25, 0, 25]), histogram_exact(k % 4, [0, 1, 2]) FROM plays GROUP BY ok
;;
SELECT map_from_entries(list((usr, c) ORDER BY usr)) FROM (SELECT usr, count(*) AS c FROM plays WHERE usr IS NOT NULL GROUP BY usr)
;;
SELECT genre, map(list(song ORDER BY song), list(len ORDER BY song)) AS lens FROM songs GROUP BY genre
;;
SELECT country, list(struct_pack(u := usr, b := born) ORDER BY born DESC NULLS LAST, usr) AS people FROM users GROUP BY country ORDER BY country NULLS FIRST
;;
SELECT list(c ORDER BY d NULLS FIRST) FROM (SELECT day AS d, list(DISTINCT usr ORDER BY usr) AS c FROM plays GROUP BY day)
;;
SELECT max(c), min(c), avg(c), sum(c), count(*), mode(c > 0) FROM (SELECT usr, song, count(*) AS c FROM plays GROUP BY usr, song)
;;
SELECT u, count(*) FROM (SELECT usr AS u, song, sum(n) AS t FROM plays GROUP BY usr, song HAVING sum(n) > 0) GROUP BY u HAVING max(t) > 20
;;
SELECT c, count(*) AS users, list(usr ORDER BY usr) FROM (SELECT usr, count(*) AS c FROM events GROUP BY usr) GROUP BY c
;;
SELECT sum(m) / count(*) FROM (SELECT max(n) AS m FROM plays GROUP BY day UNION ALL SELECT min(n) FROM plays GROUP BY ok)
;;
SELECT approx_count_distinct(ok), approx_count_distinct(NULL::INTEGER), approx_top_k(CASE WHEN k < 120 THEN 'a' WHEN k < 180 THEN 'b' ELSE 'c' END, 2) FROM plays
;;
SELECT product(1 + len % 2), product(CASE WHEN len IS NULL THEN 1 ELSE 2 END), product(len) FILTER (WHERE false) FROM songs
;;
SELECT any_value(usr), any_value('c'), count(*), min(usr) = max(usr) FROM plays WHERE usr = 'u3'
;;
SELECT usr, any_value(usr), first(upper(usr)), max(usr), count(usr), count(*) FROM plays GROUP BY usr
;;
SELECT 1 AS one, 'x', count(*) + 1, sum(1), sum(2.5), max(7), min('a'), count(NULL), sum(NULL::INTEGER), avg(3) FROM plays
;;
SELECT count(*) * count(*) AS sq, -sum(n) AS neg, sum(n) + sum(k) AS a, sum(n + k) AS b, sum(n) * 1.0 / count(n) AS c, abs(min(n)) + max(abs(n)) AS d, CASE WHEN sum(n) > 0 THEN 'pos' ELSE 'neg' END AS e FROM plays
;;
SELECT upper(min(usr)) || '-' || max(song) AS x, coalesce(min(n) FILTER (WHERE n > 1000), 0) AS y, greatest(max(n), max(k)) AS z, least(min(n), NULL) AS w FROM plays
;;
SELECT usr, round(sum(score) FILTER (WHERE isfinite(score)), 3) AS s, round(avg(v), 3) AS av FROM plays LEFT JOIN (SELECT usr, avg(v) AS v FROM events GROUP BY usr) e USING (usr) GROUP BY usr
;;
SELECT k % 3 AS k, count(*) AS c FROM plays GROUP BY k HAVING c > 0 ORDER BY 1, 2 LIMIT 11
;;
SELECT k % 3 AS k, count(*) FROM plays GROUP BY 1
;;
SELECT -n AS n, k FROM plays ORDER BY n, k LIMIT 9
;;
SELECT -n AS n, k FROM plays ORDER BY plays.n, k LIMIT 9
;;
SELECT upper(usr) AS usr, sum(n) AS n FROM plays GROUP BY usr ORDER BY n DESC NULLS LAST, usr LIMIT 6
;;
SELECT sum(n) AS k, count(*) AS n, max(k) AS usr FROM plays GROUP BY usr ORDER BY k NULLS FIRST, n, usr LIMIT 7
;;
SELECT day, sum(n) AS tot FROM plays GROUP BY day HAVING tot > (SELECT avg(n) FROM plays) AND count(*) > 5
;;
SELECT 'all' AS w FROM plays HAVING count(*) > 199
;;
SELECT 1 FROM plays HAVING max(k) < 5
;;
SELECT sum(n) FROM plays HAVING count(DISTINCT usr) BETWEEN 5 AND 20 AND NOT bool_and(ok)
;;
SELECT usr FROM plays GROUP BY usr HAVING usr > 'u15' AND max(n) FILTER (WHERE ok) > 0
;;
SELECT usr, ok, sum(n) FROM plays GROUP BY ALL HAVING count(*) >= 3
;;
SELECT day + 1 AS tomorrow, usr || '!' AS u, sum(n) * 2 + count(*) AS x, max(k) - min(k) AS span FROM plays GROUP BY ALL
;;
SELECT (k // 20) * 10 + sum(n) AS mix, k // 20 AS bucket FROM plays GROUP BY ALL
;;
SELECT 2, usr, 1, count(*) FROM plays GROUP BY 2
;;
SELECT count(*), usr, ok FROM plays GROUP BY 3, 2 ORDER BY 2 NULLS FIRST, 3 NULLS LAST, 1 LIMIT 13 OFFSET 4
;;
SELECT extract(hour FROM "at") // 6 AS q, dayofweek(day) AS w, count(*), sum(price) FROM plays GROUP BY extract(hour FROM "at") // 6, dayofweek(day)
;;
SELECT date_trunc('day', "at") AS d, time_bucket(INTERVAL 12 HOURS, "at") AS h, count(*), count(DISTINCT usr) FROM plays GROUP BY ALL ORDER BY ALL NULLS FIRST
;;
SELECT CASE WHEN n < 0 THEN 'neg' WHEN n >= 0 THEN 'pos' END AS sgn, ok IS NULL AS nook, count(*), list(k ORDER BY k)[-1] FROM plays GROUP BY sgn, nook
;;
SELECT count(*), sum(n) FROM plays GROUP BY ()
;;
SELECT count(*) FROM plays GROUP BY 'a' || 'b'
;;
SELECT count(*) FROM plays WHERE k > 500 GROUP BY ()
;;
SELECT usr, ok, sum(n), count(*), grouping(usr), grouping(ok), grouping(usr, ok) FROM plays GROUP BY ROLLUP (usr, ok)
;;
SELECT usr, ok, day, count(*), grouping_id(usr, ok, day) AS g FROM plays GROUP BY CUBE (usr, ok, day) HAVING count(*) > 6
;;
SELECT song, ok, count(DISTINCT usr), sum(DISTINCT n), list(DISTINCT day ORDER BY day) FROM plays WHERE k < 90 GROUP BY GROUPING SETS ((song), (ok), (song, ok), ())
;;
SELECT usr, avg(n), median(n), arg_max(k, k), string_agg(k::VARCHAR, ',' ORDER BY k) FROM plays WHERE k % 3 = 0 GROUP BY ROLLUP (usr)
;;
SELECT ok, k % 2 AS p, grouping(ok, k % 2) AS g, sum(n) FROM plays GROUP BY ok, ROLLUP (k % 2) ORDER BY g, ok NULLS LAST, p
;;
SELECT ok, day, count(*) FROM plays GROUP BY CUBE (ok), ROLLUP (day) HAVING grouping(ok) = 1 OR grouping(day) = 1
;;
SELECT coalesce(usr, CASE WHEN grouping(usr) = 1 THEN '<all>' ELSE '<null>' END) AS u, sum(price) AS p, rank() OVER (PARTITION BY grouping(usr) ORDER BY sum(price) DESC, usr) AS r FROM plays GROUP BY ROLLUP (usr)
;;
SELECT count(*), sum(n) FROM plays GROUP BY GROUPING SETS ((), (), (ok))
;;
SELECT usr, kind, count(*) AS c FROM events GROUP BY ROLLUP (usr, kind) ORDER BY grouping(usr, kind) DESC, c DESC, usr NULLS LAST, kind NULLS LAST LIMIT 10
;;
SELECT country, genre, sum(n), count(DISTINCT p.usr), grouping_id(country, genre) FROM plays p JOIN users USING (usr) JOIN songs USING (song) GROUP BY GROUPING SETS (CUBE (country, genre))
;;
SELECT DISTINCT grouping(usr, song) AS g, count(*) > 5 AS big FROM plays GROUP BY CUBE (usr, song)
;;
SELECT g, count(*), sum(c) FROM (SELECT grouping_id(usr, ok) AS g, count(*) AS c FROM plays GROUP BY CUBE (usr, ok)) GROUP BY g
;;
SELECT usr, k, n FROM plays QUALIFY row_number() OVER (PARTITION BY usr ORDER BY n DESC NULLS LAST, k) = 1
;;
SELECT usr, k, row_number() OVER (PARTITION BY usr ORDER BY k) AS rn FROM plays WHERE ok QUALIFY rn <= 2 AND count(*) OVER (PARTITION BY usr) > 2
;;
SELECT usr, sum(n) AS t FROM plays GROUP BY usr QUALIFY dense_rank() OVER (ORDER BY sum(n) DESC NULLS LAST) <= 3
;;
SELECT usr, song, count(*) AS c, max(k) AS mk FROM plays GROUP BY usr, song HAVING count(*) >= 1 QUALIFY row_number() OVER (PARTITION BY usr ORDER BY count(*) DESC, max(k) DESC) = 1
;;
SELECT k FROM plays QUALIFY n > avg(n) OVER (PARTITION BY day) AND lag(k) OVER (ORDER BY k) IS NOT NULL
;;
SELECT k, n FROM plays QUALIFY n = max(n) OVER () OR n = min(n) OVER ()
;;
SELECT usr, "at", kind FROM events QUALIFY lag(kind) OVER w IS DISTINCT FROM kind AND row_number() OVER w > 1 WINDOW w AS (PARTITION BY usr ORDER BY "at")
;;
SELECT usr, k, sum(n) OVER (PARTITION BY usr ORDER BY k) AS running, sum(n) OVER (PARTITION BY usr) AS total, count(*) OVER () AS everything FROM plays
;;
SELECT k, sum(n) OVER (ORDER BY k ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING), avg(n) OVER (ORDER BY k ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), count(n) OVER (ORDER BY k DESC ROWS 5 PRECEDING) FROM plays
;;
SELECT k, count(*) OVER (ORDER BY n RANGE BETWEEN 5 PRECEDING AND 5 FOLLOWING), sum(k) OVER (ORDER BY n DESC RANGE BETWEEN CURRENT ROW AND 3 FOLLOWING) FROM plays
;;
SELECT k, count(*) OVER (ORDER BY n GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW), sum(k) OVER (PARTITION BY ok ORDER BY day GROUPS BETWEEN UNBOUNDED PRECEDING AND 1 FOLLOWING EXCLUDE GROUP) FROM plays
;;
SELECT k, sum(k) OVER (PARTITION BY usr ORDER BY day EXCLUDE CURRENT ROW) a, sum(k) OVER (PARTITION BY usr ORDER BY day EXCLUDE TIES) b, sum(k) OVER (PARTITION BY usr ORDER BY day EXCLUDE GROUP) c, sum(k) OVER (PARTITION BY usr ORDER BY day EXCLUDE NO OTHERS) d FROM plays
;;
SELECT usr, "at", count(*) OVER (PARTITION BY usr ORDER BY "at" RANGE BETWEEN INTERVAL 1 DAY PRECEDING AND CURRENT ROW) AS lastday, count(*) FILTER (WHERE kind = 'buy') OVER (PARTITION BY usr ORDER BY "at" RANGE BETWEEN CURRENT ROW AND INTERVAL 36 HOURS FOLLOWING) AS buys FROM events
;;
SELECT k, day, count(*) OVER (ORDER BY day RANGE BETWEEN INTERVAL 2 DAYS PRECEDING AND INTERVAL 1 DAY PRECEDING) FROM plays WHERE day IS NOT NULL
;;
SELECT k, lag(n) OVER w, lead(n, 2, -999) OVER w, lag(n, 1 IGNORE NULLS) OVER w, first_value(n) OVER w, last_value(n IGNORE NULLS) OVER w, nth_value(k, 3) OVER w FROM plays WINDOW w AS (PARTITION BY usr ORDER BY k)
;;
SELECT k, first_value(song IGNORE NULLS) OVER (PARTITION BY ok ORDER BY k ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS nxt, last_value(usr IGNORE NULLS) OVER (ORDER BY k ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW EXCLUDE CURRENT ROW) AS prv FROM plays
;;
SELECT k, nth_value(n, 2 IGNORE NULLS) OVER (PARTITION BY day ORDER BY k ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS x, lead(song, 1, 'end') OVER (PARTITION BY day ORDER BY k) AS y FROM plays
;;
SELECT k, rank() OVER w, dense_rank() OVER w, percent_rank() OVER w, cume_dist() OVER w FROM plays WINDOW w AS (PARTITION BY ok ORDER BY n NULLS FIRST)
;;
SELECT k, ntile(7) OVER (ORDER BY n DESC NULLS LAST, k), ntile(3) OVER (PARTITION BY usr ORDER BY k), row_number() OVER (ORDER BY day DESC NULLS FIRST, k DESC) FROM plays
;;
SELECT usr, count(*) AS c, sum(count(*)) OVER () AS total, round(100.0 * count(*) / sum(count(*)) OVER (), 2) AS pct, sum(sum(n)) OVER (ORDER BY usr NULLS FIRST) AS cum FROM plays GROUP BY usr
;;
SELECT day, max(n) AS mx, lag(max(n)) OVER (ORDER BY day NULLS LAST) AS prev, max(n) - lag(max(n)) OVER (ORDER BY day NULLS LAST) AS diff, count(DISTINCT usr) - lead(count(DISTINCT usr), 1, 0) OVER (ORDER BY day NULLS LAST) AS dd FROM plays GROUP BY day
;;
SELECT ok, day, sum(n), sum(sum(n)) OVER (PARTITION BY ok), first_value(day) OVER (PARTITION BY ok ORDER BY sum(n) DESC NULLS LAST, day), avg(count(*)) OVER (PARTITION BY day) FROM plays GROUP BY ok, day
;;
SELECT k, string_agg(song, ',' ORDER BY k DESC) OVER (PARTITION BY usr) AS a, list(n) OVER (PARTITION BY usr ORDER BY k ROWS 2 PRECEDING) AS b FROM plays WHERE k < 80
;;
SELECT k, count(DISTINCT song) OVER (PARTITION BY usr) AS d, sum(DISTINCT n % 4) OVER (PARTITION BY usr ORDER BY k ROWS BETWEEN 3 PRECEDING AND CURRENT ROW) AS s, count(DISTINCT usr) OVER (ORDER BY k) AS seen FROM plays
;;
SELECT k, median(n) OVER (PARTITION BY ok ORDER BY k ROWS BETWEEN 4 PRECEDING AND 4 FOLLOWING), quantile_disc(n, 0.25) OVER (PARTITION BY day), mad(n) OVER (PARTITION BY ok) FROM plays
;;
SELECT k, arg_max(k, k) OVER (PARTITION BY usr), arg_min(song, k) OVER (PARTITION BY ok ORDER BY k DESC), max(n) FILTER (WHERE ok) OVER (ORDER BY k ROWS BETWEEN 10 PRECEDING AND 1 PRECEDING) FROM plays
;;
SELECT usr, "at", round(sum(v) OVER (PARTITION BY usr ORDER BY "at"), 2) AS rv, round(avg(v) OVER (PARTITION BY usr ORDER BY "at" ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING), 4) AS mv, "at" - lag("at") OVER (PARTITION BY usr ORDER BY "at") AS gap FROM events
;;
SELECT k, sum(n) OVER (w ROWS BETWEEN 1 PRECEDING AND CURRENT ROW), max(n) OVER (w ROWS UNBOUNDED PRECEDING), row_number() OVER w2 FROM plays WINDOW w AS (PARTITION BY usr ORDER BY k), w2 AS (ORDER BY k DESC)
;;
SELECT k, sum(n) OVER (ORDER BY k ROWS BETWEEN k % 3 PRECEDING AND k % 2 FOLLOWING) AS s FROM plays
;;
SELECT k, rn FROM (SELECT k, row_number() OVER (ORDER BY score DESC NULLS LAST, k) AS rn FROM plays) WHERE rn BETWEEN 3 AND 9 ORDER BY rn
;;
SELECT usr, c FROM (SELECT usr, count(*) OVER (PARTITION BY usr) AS c, k FROM plays) WHERE k = 17
;;
SELECT * FROM (SELECT k, usr, sum(n) OVER (PARTITION BY usr) AS t FROM plays) WHERE usr = 'u5' AND k < 100
;;
SELECT k, total FROM (SELECT k, count(*) OVER () AS total FROM plays) WHERE k IN (1, 2, 3)
;;
SELECT max(rn), count(*), sum(rn) FROM (SELECT row_number() OVER (PARTITION BY song ORDER BY k) AS rn FROM plays)
;;
SELECT session, usr, count(*), min("at"), max("at") FROM (SELECT *, sum(isnew) OVER (PARTITION BY usr ORDER BY "at") AS session FROM (SELECT usr, "at", CASE WHEN "at" - lag("at") OVER (PARTITION BY usr ORDER BY "at") > INTERVAL 12 HOURS THEN 1 ELSE 0 END AS isnew FROM events)) GROUP BY usr, session
;;
SELECT sum(x) FROM (SELECT DISTINCT first_value(k) OVER (PARTITION BY usr ORDER BY k) AS x FROM plays)
;;
SELECT id, sum(id) OVER (ORDER BY id RANGE BETWEEN 3 PRECEDING AND 3 FOLLOWING EXCLUDE CURRENT ROW), lag(b, 2 IGNORE NULLS) OVER (ORDER BY id), bit_or(b) OVER (ORDER BY id ROWS 4 PRECEDING) FROM nums
;;
SELECT count(*) OVER (), sum(v) OVER (), row_number() OVER () FROM empty
;;
SELECT count(*), count(*) OVER (), sum(count(*)) OVER () FROM empty
;;
SELECT DISTINCT usr FROM plays ORDER BY usr DESC NULLS LAST LIMIT 5 OFFSET 2
;;
SELECT DISTINCT ON (usr) usr, k, n FROM plays ORDER BY usr, n DESC NULLS LAST, k
;;
SELECT DISTINCT ON (ok, day) ok, day, k FROM plays WHERE k % 2 = 0 ORDER BY ok NULLS FIRST, day DESC NULLS LAST, k DESC LIMIT 9
;;
SELECT DISTINCT ON (n % 3) k FROM plays ORDER BY n % 3, k DESC
;;
SELECT count(*), sum(k) FROM (SELECT DISTINCT ON (song) song, k FROM plays ORDER BY song, k DESC)
;;
SELECT DISTINCT s.y, tags[1] FROM plays
;;
SELECT DISTINCT count(*) AS c FROM plays GROUP BY usr
;;
SELECT DISTINCT sum(n) > 0, max(ok) FROM plays GROUP BY song, usr HAVING count(*) < 3
;;
SELECT DISTINCT k % 4 AS r, n > 0 AS p FROM plays ORDER BY r DESC, p NULLS FIRST LIMIT 7
;;
SELECT count(*) FROM (SELECT DISTINCT usr, song, ok FROM plays)
;;
SELECT count(DISTINCT c) FROM (SELECT DISTINCT usr, count(*) OVER (PARTITION BY usr) AS c FROM plays)
;;
SELECT k, n FROM plays ORDER BY k LIMIT 10%
;;
SELECT k FROM plays ORDER BY k DESC LIMIT 12.5% OFFSET 3
;;
SELECT usr, sum(n) FROM plays GROUP BY usr ORDER BY sum(n) DESC NULLS LAST, usr LIMIT 25%
;;
SELECT k FROM plays ORDER BY n NULLS FIRST, k LIMIT (SELECT count(*) // 5 FROM users) OFFSET (SELECT max(rank) FROM users)
;;
SELECT k, usr FROM plays WHERE ok ORDER BY usr, k LIMIT 2 + 3 OFFSET 1 * 4
;;
SELECT k FROM plays ORDER BY k OFFSET 190
;;
SELECT k FROM plays ORDER BY k DESC LIMIT NULL OFFSET 195
;;
SELECT count(*), sum(k) FROM (SELECT k FROM plays ORDER BY n DESC NULLS LAST, k LIMIT 20 OFFSET 5)
;;
SELECT sum(k) FROM (SELECT k FROM plays ORDER BY k LIMIT 50) WHERE k % 2 = 0
;;
SELECT * FROM (SELECT k, usr FROM plays ORDER BY k LIMIT 30) WHERE usr = 'u4' ORDER BY k DESC LIMIT 3
;;
SELECT usr, count(*) FROM (SELECT usr FROM plays ORDER BY k DESC LIMIT 60 OFFSET 10) GROUP BY usr
;;
(SELECT k FROM plays ORDER BY k LIMIT 3) UNION ALL (SELECT k FROM plays ORDER BY k DESC LIMIT 3) ORDER BY 1 DESC LIMIT 5
;;
SELECT usr, ok, count(*) FROM plays GROUP BY ALL ORDER BY ALL DESC NULLS LAST LIMIT 12
;;
SELECT name, usr FROM users ORDER BY name COLLATE NOCASE NULLS FIRST, usr LIMIT 11
;;
SELECT name, usr FROM users ORDER BY name COLLATE NOCASE.NOACCENT DESC, usr LIMIT 9
;;
SELECT lower(country) AS c, count(*), list(usr ORDER BY name COLLATE NOACCENT, usr) FROM users WHERE country COLLATE NOCASE = 'US' OR country = 'DE' GROUP BY c
;;
SELECT usr FROM plays ORDER BY length(usr) DESC, usr DESC, score DESC NULLS LAST, k LIMIT 8
;;
SELECT usr FROM plays GROUP BY usr ORDER BY count(*) DESC, max(k) LIMIT 4
;;
SELECT k FROM plays ORDER BY s NULLS FIRST, tags, k LIMIT 15
;;
SELECT k, score FROM plays ORDER BY score DESC NULLS FIRST, k LIMIT 30
;;
SELECT k, raw FROM plays ORDER BY raw DESC NULLS LAST, k LIMIT 6
;;
SELECT name FROM users ORDER BY -rank NULLS LAST, usr LIMIT 6
;;
SELECT sum(n) AS s, usr FROM plays GROUP BY usr ORDER BY s / count(*) DESC NULLS LAST, usr LIMIT 5
;;
SELECT n AS a, a + 1 AS b, b * 2 AS c, c - a AS d FROM plays WHERE b > 20 ORDER BY d, k LIMIT 8
;;
SELECT sum(n) AS t, count(n) AS c, t / c AS m, m > 0 AS pos FROM plays
;;
SELECT usr AS u, sum(n) AS t, t * 2 AS dbl, sum(t) OVER () AS g FROM plays GROUP BY u HAVING t IS NOT NULL ORDER BY dbl DESC, u LIMIT 6
;;
SELECT k + 1 AS n, n AS m, plays.n AS o FROM plays WHERE k < 5
;;
SELECT k AS x, x % 4 AS g, row_number() OVER (PARTITION BY g ORDER BY x DESC) AS rn FROM plays WHERE x < 40 QUALIFY rn = 2
;;
PIVOT plays ON ok IN (true, false) USING sum(n) AS s, count(*) AS c GROUP BY usr
;;
PIVOT events ON kind IN ('click', 'buy', 'none') USING count(*) GROUP BY usr ORDER BY usr
;;
PIVOT (SELECT usr, ok, day, n FROM plays WHERE k < 100) ON day USING sum(n) GROUP BY usr
;;
PIVOT (SELECT country, kind FROM events JOIN users USING (usr)) ON kind USING count(*)
;;
FROM (SELECT usr, ok, day, n FROM plays) PIVOT (max(n) AS mx, count(DISTINCT usr) AS u FOR ok IN (true, false) day IN (DATE '2024-05-01', DATE '2024-05-02'))
;;
SELECT * FROM (SELECT usr, kind, v FROM events) PIVOT (round(avg(v), 3) FOR kind IN ('click', 'view') GROUP BY usr) WHERE usr > 'u15'
;;
SELECT count(*), sum("click_c"), sum("buy_c") FROM (PIVOT events ON kind IN ('click', 'buy') USING count(*) AS c GROUP BY usr)
;;
UNPIVOT (SELECT k, n::BIGINT AS a, k * 2 AS b, s.x AS c FROM plays WHERE k < 25) ON a, b, c INTO NAME col VALUE val
;;
SELECT col, count(*), sum(val) FROM (UNPIVOT (SELECT k, n::BIGINT AS n, k % 7 AS r FROM plays) ON n, r INTO NAME col VALUE val) GROUP BY col
;;
FROM (SELECT usr, name, country FROM users) UNPIVOT INCLUDE NULLS (val FOR col IN (name, country)) ORDER BY usr, col
;;
UNPIVOT (SELECT max(n)::BIGINT AS mx, min(n)::BIGINT AS mn, count(*) AS c FROM plays) ON COLUMNS(*) INTO NAME what VALUE v
;;
SELECT column_name, column_type, min, max, count, null_percentage FROM (SUMMARIZE SELECT k, usr, n, price, day, ok FROM plays)
;;
SELECT column_name, column_type, count FROM (SUMMARIZE SELECT usr, sum(n) AS s, count(*) AS c FROM plays GROUP BY usr)
;;
SELECT min(COLUMNS(* EXCLUDE (tags, s, m, raw, score))) FROM plays
;;
SELECT max(COLUMNS('^(n|k|price)$')), count(COLUMNS('^(usr|song)$')) FROM plays
;;
SELECT count(COLUMNS(*)) FROM plays
;;
SELECT usr, sum(COLUMNS(['n', 'k', 'price'])) FROM plays GROUP BY usr HAVING count(*) > 7
;;
SELECT max(COLUMNS(lambda c: c LIKE 's%')) FROM plays WHERE isfinite(score)
;;
SELECT min(COLUMNS(*)) AS "lo_\0", max(COLUMNS(*)) AS "hi_\0" FROM users
;;
SELECT * EXCLUDE (tags, s, m, raw) REPLACE (coalesce(n, 0) + 1 AS n, upper(usr) AS usr) FROM plays WHERE k BETWEEN 60 AND 66
;;
SELECT * EXCLUDE (m, raw) RENAME (k AS kk, "at" AS moment) FROM plays WHERE k % 50 = 7
;;
SELECT k, coalesce(*COLUMNS('^(usr|song)$')) AS c FROM plays WHERE COLUMNS('^(ok|n)$') IS NOT NULL
;;
SELECT p.* EXCLUDE (tags, s, m, raw, score), u.* EXCLUDE (usr) FROM plays p JOIN users u ON p.usr = u.usr WHERE p.k < 12
;;
FROM plays SELECT usr, max(price) AS p WHERE n > 0 GROUP BY usr HAVING p > 500 ORDER BY p DESC, usr LIMIT 5
;;
FROM (FROM plays SELECT k % 5 AS g, n WHERE ok) SELECT g, sum(n), list(n ORDER BY n NULLS LAST) GROUP BY ALL
;;
WITH t AS (FROM plays SELECT usr, n, k) FROM t SELECT count(*), (FROM t SELECT max(n)), (SELECT count(DISTINCT usr) FROM t WHERE k > 100)
;;
SELECT v.g, count(p.k), sum(p.n) FROM (VALUES (0, 'zero'), (1, 'one'), (9, 'nine'), (NULL, 'nul')) v(g, w) LEFT JOIN plays p ON p.k % 5 = v.g GROUP BY v.g
;;
VALUES ((SELECT count(*) FROM plays), (SELECT max(usr) FROM users)), ((SELECT count(*) FROM empty), (SELECT max(t) FROM empty)), (-1, 'x')
;;
SELECT k, sum(c) FROM (SELECT k % 3 AS k, count(*) AS c FROM plays GROUP BY 1 UNION ALL VALUES (0, 1000), (7, 7)) GROUP BY k
;;
SELECT usr, count(*) FROM (SELECT usr, k AS x FROM plays UNION ALL BY NAME SELECT v AS x, usr FROM events UNION ALL BY NAME SELECT usr, country FROM users) GROUP BY usr
;;
SELECT count(*), count(n), count(kind), count(usr), count(DISTINCT usr), sum(n) FROM (SELECT usr, n FROM plays UNION ALL BY NAME SELECT kind, usr FROM events)
;;
SELECT count(*), count(DISTINCT u) FROM (SELECT usr AS u FROM plays UNION SELECT usr FROM users UNION SELECT usr FROM events)
;;
SELECT usr, count(*) FROM (SELECT usr FROM plays EXCEPT ALL SELECT usr FROM events WHERE kind = 'buy') GROUP BY usr
;;
SELECT count(*), min(usr), max(usr) FROM (SELECT usr FROM plays INTERSECT ALL SELECT usr FROM events)
;;
SELECT usr FROM users EXCEPT SELECT usr FROM plays ORDER BY usr
;;
SELECT usr, ok FROM plays WHERE k < 60 INTERSECT SELECT usr, ok FROM plays WHERE k >= 60
;;
SELECT x, count(*) FROM (SELECT n % 4 AS x FROM plays EXCEPT ALL SELECT id % 4 FROM nums) GROUP BY x
;;
SELECT sum(c) FROM (SELECT count(*) AS c FROM plays UNION SELECT count(*) FROM plays UNION ALL SELECT count(*) FROM empty)
;;
SELECT src, sum(x), typeof(sum(x)), max(x) FROM (SELECT 'p' AS src, price AS x FROM plays UNION ALL SELECT 'n', n FROM plays UNION ALL SELECT 'b', b FROM nums) GROUP BY src
;;
SELECT usr, n FROM plays WHERE n > 45 UNION ALL SELECT usr, rank FROM users WHERE rank > 7 UNION ALL SELECT t, id FROM empty ORDER BY usr NULLS FIRST, n DESC LIMIT 14
;;
SELECT usr, max(d), min(d) FROM (SELECT usr, day AS d FROM plays UNION ALL SELECT usr, "at" FROM events UNION ALL SELECT usr, born FROM users) GROUP BY usr HAVING count(DISTINCT d) > 10
;;
SELECT t, count(*) FROM (SELECT unnest(tags) AS t FROM plays) GROUP BY t
;;
SELECT usr, t, count(DISTINCT k) AS c FROM plays, unnest(tags) AS x(t) GROUP BY usr, t HAVING c > 1
;;
SELECT sum(list_sum(l)), sum(len(l)), count(l), max(l), list_distinct(flatten(list(l ORDER BY id))).list_sort() FROM nums
;;
SELECT key, sum(value), count(*) FROM (SELECT unnest(map_entries(m), recursive := true) FROM plays) GROUP BY key
;;
SELECT genre, count(DISTINCT u.country) FILTER (WHERE p.n > 0) AS c, sum(p.price) AS pr, string_agg(DISTINCT u.country, '+' ORDER BY u.country) AS cs FROM plays p LEFT JOIN users u USING (usr) LEFT JOIN songs USING (song) GROUP BY genre
;;
SELECT u.usr, count(p.k), count(*), sum(p.n), count(DISTINCT p.song), bool_or(p.ok) FROM users u LEFT JOIN plays p USING (usr) GROUP BY u.usr
;;
SELECT usr, count(*), sum(n), max(v) FROM plays FULL JOIN (SELECT usr, max(v) AS v FROM events WHERE kind = 'view' GROUP BY usr) USING (usr) GROUP BY usr
;;
SELECT u.usr, (SELECT count(*) FROM plays p WHERE p.usr = u.usr) AS c, (SELECT sum(n) FROM plays p WHERE p.usr = u.usr AND ok) AS s, (SELECT string_agg(kind, ',' ORDER BY "at") FROM events e WHERE e.usr = u.usr AND v > 80) AS ks FROM users u
;;
SELECT usr, sum(n) FROM plays WHERE usr IN (SELECT usr FROM events GROUP BY usr HAVING count(*) > 13) AND song NOT IN (SELECT song FROM songs WHERE genre = 'pop') GROUP BY usr
;;
SELECT day, count(*) FROM plays p WHERE n > (SELECT avg(n) FROM plays q WHERE q.usr = p.usr) GROUP BY day
;;
SELECT usr, total, rank() OVER (ORDER BY total DESC NULLS LAST) AS r FROM (SELECT usr, sum(price) AS total FROM plays GROUP BY usr) WHERE total > ALL (SELECT avg(price) FROM plays GROUP BY ok)
;;
SELECT usr, sum(n) AS s FROM plays GROUP BY usr HAVING sum(n) = (SELECT max(t) FROM (SELECT sum(n) AS t FROM plays GROUP BY usr))
;;
SELECT usr, latest.k, latest.n FROM users u, LATERAL (SELECT k, n FROM plays p WHERE p.usr = u.usr ORDER BY k DESC LIMIT 2) latest
;;
SELECT sum(n) FILTER (WHERE usr IN (SELECT usr FROM users WHERE country = 'DE')) AS de, count(*) FILTER (WHERE EXISTS (SELECT 1 FROM songs x WHERE x.song = plays.song AND genre = 'jazz')) AS jazz FROM plays
;;
SELECT coalesce(country, '-') AS c, sum(n) AS s, count(DISTINCT usr) AS u, sum(sum(n)) OVER (ORDER BY coalesce(country, '-') ROWS UNBOUNDED PRECEDING) AS run FROM plays NATURAL JOIN users GROUP BY 1 QUALIFY row_number() OVER (ORDER BY c DESC) <= 4
;;
SELECT round(sum(f), 3), round(avg(f)::DOUBLE, 4), min(f), max(f), count(DISTINCT f), sum(b), avg(b), bit_xor(b), sum(DISTINCT b), sum(id) FILTER (WHERE l IS NULL) FROM nums WHERE id BETWEEN -20 AND 20
;;
SELECT l, count(*), sum(id), list(id ORDER BY id) FROM nums GROUP BY l HAVING count(*) > 1
;;
SELECT id // 10 AS g, count(*), min(id), sum(b) FROM nums WHERE id IN (-45, -1, 0, 1, 44, 45) GROUP BY g ORDER BY g
;;
SELECT tz::DATE IS NULL AS x, count(*), max(tz) > TIMESTAMPTZ '2024-05-05 00:00:00+00' FROM nums GROUP BY ALL
;;
SELECT count(*) AS n, usr FROM plays WHERE n > 0 GROUP BY usr HAVING n > 2 ORDER BY n DESC, usr LIMIT 6
;;
SELECT usr, max(n) - min(n) AS d FROM plays GROUP BY usr HAVING count(DISTINCT ok) = 2 AND d >= ANY (SELECT rank FROM users) ORDER BY d DESC NULLS LAST, usr DESC NULLS FIRST LIMIT 30% OFFSET 1
;;
SELECT song, min_by(n, day ORDER BY k) FROM plays GROUP BY song
;;
SELECT song, max_by(n, ok ORDER BY k DESC) FROM plays GROUP BY song
;;
SELECT song, arg_min_null(n, ok ORDER BY k), arg_max(k, ok ORDER BY k) FILTER (WHERE n > 0) FROM plays GROUP BY song
;;
SELECT arg_min(k, ok ORDER BY usr DESC, k), arg_max_null(k, ok ORDER BY n DESC NULLS LAST, k DESC) FROM plays
;;
SELECT (SELECT sum(u.rank)) FROM users u
;;
SELECT (SELECT sum(u.rank)) FROM users u LIMIT 1
;;
SELECT (SELECT sum(u.rank)) x FROM users u ORDER BY x LIMIT 1
;;
SELECT count(*) FROM (SELECT (SELECT sum(u.rank)) s FROM users u) q
;;
SELECT country, rank FROM users u UNION ALL SELECT 'x', (SELECT max(u.rank)) FROM users u
;;
WITH c AS (SELECT (SELECT count(u.rank)) s FROM users u) SELECT * FROM c JOIN c d ON true
;;
SELECT 1 AS x FROM users u ORDER BY (SELECT sum(u.rank))
;;
SELECT (SELECT sum(u.rank) FROM songs s WHERE s.song = 's1') FROM users u
;;
SELECT EXISTS (SELECT 1 WHERE sum(u.rank) > 5), 5 IN (SELECT sum(u.rank)), ARRAY(SELECT sum(u.rank)) FROM users u
;;
SELECT (SELECT (SELECT sum(u.rank))), (SELECT sum(u.rank) FILTER (u.rank > 3)), (SELECT list(u.usr ORDER BY u.usr)) FROM users u
;;
SELECT country, (SELECT sum(u.rank)) FROM users u GROUP BY country
;;
SELECT u.usr, (SELECT sum(u.rank + s.len) FROM songs s) AS t, (SELECT count(*) FROM songs s WHERE s.len > u.rank) AS c FROM users u
;;
SELECT (SELECT sum(u.rank)) * (SELECT max(n) FROM plays) FROM users u
;;
SELECT u.usr FROM users u GROUP BY u.usr HAVING EXISTS (SELECT 1 FROM plays p WHERE p.n > max(u.rank))
;;
SELECT u.usr, x.s FROM users u, LATERAL (SELECT sum(u.rank) AS s) x
;;
SELECT count(DISTINCT n), count(DISTINCT (n)), count(*), sum(k) FROM plays
;;
SELECT usr, count(DISTINCT n), count(DISTINCT (n)), count(*) FROM plays GROUP BY usr
;;
SELECT usr, count(DISTINCT n), avg(DISTINCT (usr)::VARCHAR::INTEGER IS NULL), count(DISTINCT (n)), count(*) FROM plays GROUP BY usr
;;
SELECT usr, count(DISTINCT (usr)), count(DISTINCT n), count(*), sum(k) FROM plays GROUP BY usr
;;
SELECT ok, count(DISTINCT n + 1), sum(DISTINCT (n + 1)), count(DISTINCT -n), count(DISTINCT -(n)), count(*), sum(k) FROM plays GROUP BY ROLLUP (ok)
;;
SELECT count(DISTINCT (n, usr)), count(DISTINCT row(n, usr)), count(DISTINCT s.x), count(DISTINCT s['x']), count(DISTINCT (s).x), count(DISTINCT struct_extract(s, 'x')), count(*) FROM plays
;;
SELECT string_agg(DISTINCT usr, ',' ORDER BY usr), string_agg(DISTINCT (usr), ',' ORDER BY (usr)), count(*) FROM plays
;;
SELECT count(DISTINCT CASE WHEN n = 1 THEN usr END), count(DISTINCT CASE WHEN (n = 1) THEN usr END), count(k) FROM plays
;;
SELECT count(DISTINCT n) FILTER (WHERE ok), count(DISTINCT (n)) FILTER (WHERE ok), count(DISTINCT n::INTEGER), max(k), count(*) FROM plays
;;
SELECT n > 3 AS b, count(*) FROM plays GROUP BY ROLLUP (n > 3)
;;
SELECT n IS NULL AS x, usr, count(*) FROM plays GROUP BY CUBE (n IS NULL, usr)
;;
SELECT ok, sum(k) FROM plays GROUP BY GROUPING SETS (k > 50 AND ok, ok, (), usr LIKE 'u1%')
;;
SELECT day BETWEEN DATE '2024-05-02' AND DATE '2024-05-04' AS d, count(*) FROM plays GROUP BY ROLLUP (day BETWEEN DATE '2024-05-02' AND DATE '2024-05-04', usr IN ('u1', 'u2'))
;;
SELECT sum(DISTINCT n) FROM plays
;;
SELECT ok, sum(ALL n) FROM plays GROUP BY ok
;;
SELECT avg(DISTINCT n) FROM plays
;;
SELECT ok, avg(ALL n) FROM plays GROUP BY ok
;;
SELECT count(DISTINCT n) FROM plays
;;
SELECT ok, count(ALL n) FROM plays GROUP BY ok
;;
SELECT min(DISTINCT n) FROM plays
;;
SELECT ok, min(ALL n) FROM plays GROUP BY ok
;;
SELECT max(DISTINCT n) FROM plays
;;
SELECT ok, max(ALL n) FROM plays GROUP BY ok
;;
SELECT (list(DISTINCT n)) IS NOT NULL FROM plays
;;
SELECT ok, (list(ALL n)) IS NOT NULL FROM plays GROUP BY ok
;;
SELECT (array_agg(DISTINCT n)) IS NOT NULL FROM plays
;;
SELECT ok, (array_agg(ALL n)) IS NOT NULL FROM plays GROUP BY ok
;;
SELECT (string_agg(DISTINCT usr)) IS NOT NULL FROM plays
;;
SELECT ok, (string_agg(ALL usr)) IS NOT NULL FROM plays GROUP BY ok
;;
SELECT (group_concat(DISTINCT usr)) IS NOT NULL FROM plays
;;
SELECT ok, (group_concat(ALL usr)) IS NOT NULL FROM plays GROUP BY ok
;;
SELECT (listagg(DISTINCT usr)) IS NOT NULL FROM plays
;;
SELECT ok, (listagg(ALL usr)) IS NOT NULL FROM plays GROUP BY ok
;;
SELECT (any_value(DISTINCT n)) IS NOT NULL FROM plays
;;
SELECT ok, (any_value(ALL n)) IS NOT NULL FROM plays GROUP BY ok
;;
SELECT (first(DISTINCT k)) IS NOT NULL FROM plays
;;
SELECT ok, (first(ALL k)) IS NOT NULL FROM plays GROUP BY ok
;;
SELECT (last(DISTINCT k)) IS NOT NULL FROM plays
;;
SELECT ok, (last(ALL k)) IS NOT NULL FROM plays GROUP BY ok
;;
SELECT (arbitrary(DISTINCT k)) IS NOT NULL FROM plays
;;
SELECT ok, (arbitrary(ALL k)) IS NOT NULL FROM plays GROUP BY ok
;;
SELECT (mode(DISTINCT n)) IS NOT NULL FROM plays
;;
SELECT ok, (mode(ALL n)) IS NOT NULL FROM plays GROUP BY ok
;;
SELECT median(DISTINCT n) FROM plays
;;
SELECT ok, median(ALL n) FROM plays GROUP BY ok
;;
SELECT mad(DISTINCT n) FROM plays
;;
SELECT ok, mad(ALL n) FROM plays GROUP BY ok
;;
SELECT histogram(DISTINCT n) FROM plays
;;
SELECT ok, histogram(ALL n) FROM plays GROUP BY ok
;;
SELECT bit_and(DISTINCT n) FROM plays
;;
SELECT ok, bit_and(ALL n) FROM plays GROUP BY ok
;;
SELECT bit_or(DISTINCT n) FROM plays
;;
SELECT ok, bit_or(ALL n) FROM plays GROUP BY ok
;;
SELECT bit_xor(DISTINCT n) FROM plays
;;
SELECT ok, bit_xor(ALL n) FROM plays GROUP BY ok
;;
SELECT bool_and(DISTINCT ok) FROM plays
;;
SELECT ok, bool_and(ALL ok) FROM plays GROUP BY ok
;;
SELECT bool_or(DISTINCT ok) FROM plays
;;
SELECT ok, bool_or(ALL ok) FROM plays GROUP BY ok
;;
SELECT count_if(DISTINCT ok) FROM plays
;;
SELECT ok, count_if(ALL ok) FROM plays GROUP BY ok
;;
SELECT countif(DISTINCT ok) FROM plays
;;
SELECT ok, countif(ALL ok) FROM plays GROUP BY ok
;;
SELECT product(DISTINCT n) FROM plays
;;
SELECT ok, product(ALL n) FROM plays GROUP BY ok
;;
SELECT entropy(DISTINCT n) FROM plays
;;
SELECT ok, entropy(ALL n) FROM plays GROUP BY ok
;;
SELECT kurtosis(DISTINCT n) FROM plays
;;
SELECT ok, kurtosis(ALL n) FROM plays GROUP BY ok
;;
SELECT kurtosis_pop(DISTINCT n) FROM plays
;;
SELECT ok, kurtosis_pop(ALL n) FROM plays GROUP BY ok
;;
SELECT skewness(DISTINCT n) FROM plays
;;
SELECT ok, skewness(ALL n) FROM plays GROUP BY ok
;;
SELECT stddev(DISTINCT n) FROM plays
;;
SELECT ok, stddev(ALL n) FROM plays GROUP BY ok
;;
SELECT stddev_pop(DISTINCT n) FROM plays
;;
SELECT ok, stddev_pop(ALL n) FROM plays GROUP BY ok
;;
SELECT stddev_samp(DISTINCT n) FROM plays
;;
SELECT ok, stddev_samp(ALL n) FROM plays GROUP BY ok
;;
SELECT var_pop(DISTINCT n) FROM plays
;;
SELECT ok, var_pop(ALL n) FROM plays GROUP BY ok
;;
SELECT var_samp(DISTINCT n) FROM plays
;;
SELECT ok, var_samp(ALL n) FROM plays GROUP BY ok
;;
SELECT variance(DISTINCT n) FROM plays
;;
SELECT ok, variance(ALL n) FROM plays GROUP BY ok
;;
SELECT sem(DISTINCT n) FROM plays
;;
SELECT ok, sem(ALL n) FROM plays GROUP BY ok
;;
SELECT favg(DISTINCT n) FROM plays
;;
SELECT ok, favg(ALL n) FROM plays GROUP BY ok
;;
SELECT fsum(DISTINCT n) FROM plays
;;
SELECT ok, fsum(ALL n) FROM plays GROUP BY ok
;;
SELECT kahan_sum(DISTINCT n) FROM plays
;;
SELECT ok, kahan_sum(ALL n) FROM plays GROUP BY ok
;;
SELECT sumkahan(DISTINCT n) FROM plays
;;
SELECT ok, sumkahan(ALL n) FROM plays GROUP BY ok
;;
SELECT geomean(DISTINCT n) FROM plays
;;
SELECT ok, geomean(ALL n) FROM plays GROUP BY ok
;;
SELECT mean(DISTINCT n) FROM plays
;;
SELECT ok, mean(ALL n) FROM plays GROUP BY ok
;;
SELECT approx_count_distinct(DISTINCT n) FROM plays
;;
SELECT ok, approx_count_distinct(ALL n) FROM plays GROUP BY ok
;;
SELECT arg_max(DISTINCT usr, n) FROM plays
;;
SELECT arg_min(DISTINCT k, n) FROM plays
;;
SELECT max_by(DISTINCT usr, k) FROM plays
;;
SELECT min_by(DISTINCT usr, k) FROM plays
;;
SELECT arg_max(DISTINCT usr, k, 2) FROM plays
;;
SELECT arg_min_null(DISTINCT usr, k) FROM plays
;;
SELECT arg_max_null(DISTINCT usr, k) FROM plays
;;
SELECT corr(DISTINCT n, k) FROM plays
;;
SELECT covar_pop(DISTINCT n, k) FROM plays
;;
SELECT covar_samp(DISTINCT n, k) FROM plays
;;
SELECT regr_slope(DISTINCT n, k) FROM plays
;;
SELECT regr_count(DISTINCT n, k) FROM plays
;;
SELECT quantile_cont(DISTINCT n, 0.5) FROM plays
;;
SELECT quantile_disc(DISTINCT n, 0.5) FROM plays
;;
SELECT quantile(DISTINCT n, 0.5) FROM plays
;;
SELECT approx_quantile(DISTINCT n, 0.5) IS NOT NULL FROM plays
;;
SELECT reservoir_quantile(DISTINCT n, 0.5) IS NOT NULL FROM plays
;;
SELECT max(DISTINCT n, 2) FROM plays
;;
SELECT min(DISTINCT n, 2) FROM plays
;;
SELECT string_agg(DISTINCT usr, ',') IS NOT NULL FROM plays
;;
SELECT string_agg(DISTINCT usr, ',' ORDER BY usr) FROM plays
;;
SELECT bitstring_agg(DISTINCT k, 0, 199)::VARCHAR FROM plays
;;
SELECT histogram(DISTINCT n, [0, 10]) FROM plays
;;
SELECT weighted_avg(n, k) FROM plays
;;
SELECT approx_top_k(DISTINCT ok, 2) IS NOT NULL FROM plays
;;
SELECT arg_max(ALL usr, k) FROM plays
;;
SELECT corr(ALL n, k) FROM plays
;;
SELECT quantile_cont(ALL n, 0.5) FROM plays
;;
SELECT argmax(DISTINCT usr, k) FROM plays
;;
SELECT arg_max_nulls_last(DISTINCT usr, k) FROM plays
;;
SELECT regr_r2(DISTINCT n, k) FROM plays
;;
SELECT string_agg(DISTINCT name, ', ' ORDER BY length(name) DESC, name), list(DISTINCT rank ORDER BY -rank) FROM users
;;
SELECT usr, list(DISTINCT n + 1 ORDER BY (n + 1) % 3, n + 1) FILTER (n > 2) FROM plays GROUP BY usr ORDER BY usr
;;
SELECT arg_max(DISTINCT k, n ORDER BY n + k), first(DISTINCT song ORDER BY reverse(song)) FROM plays
;;
SELECT list(DISTINCT s ORDER BY s.x DESC, s.y, s) FROM plays
;;
SELECT sum(score ORDER BY k), sum(score ORDER BY k DESC), avg(score / 7 ORDER BY abs(score), k), fsum(score ORDER BY k) FROM plays WHERE isfinite(score)
;;
SELECT usr, stddev(score / 7 ORDER BY k), var_pop(score ORDER BY score, k) FILTER (n > 0), skewness(score ORDER BY k) FROM plays WHERE isfinite(score) GROUP BY usr
;;
SELECT corr(score, n ORDER BY k), covar_samp(score / 7, n ORDER BY k DESC), regr_avgx(n, score ORDER BY k), regr_slope(score, k ORDER BY n, k) FROM plays WHERE isfinite(score)
