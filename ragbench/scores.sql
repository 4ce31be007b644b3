-- The metric definitions, over the views of views.sql. Two readers use this text: the fold, which
-- keeps the results in four tables (schema.sql), and `check`, which compares the two.
-- On a connection `response_scores` and `criterion_scores` are those summaries.

-- One row per response, panel and metric that is not about constraints.
-- Coverage weighs core claims 0.7 and supplementary ones 0.3; with one kind only, that kind alone.
CREATE OR REPLACE VIEW criterion_scores AS
WITH graded AS (
    SELECT
        p.panel,
        w.response_id,
        a.criterion AS metric,
        count(j.error) AS errors,
        any_value(j.score) AS value,
        coalesce(any_value(j.score), any_value(c.lowest)) AS lowest,
        coalesce(any_value(j.score), any_value(c.highest)) AS highest,
        bool_or(o.origin = 'measured') AS has_measured,
        bool_or(o.origin = 'recorded') AS has_recorded,
        bool_or(o.origin = 'simulated') AS has_simulated
    FROM planned_responses AS w
    JOIN applicable AS a ON a.instance_id = w.instance_id
    JOIN criteria AS c ON c.criterion = a.criterion
    CROSS JOIN panels AS p
    LEFT JOIN judgments AS j
        ON j.response_id = w.response_id AND j.criterion = a.criterion
        AND j.target_id = w.response_id AND j.judge = p.judge AND j.repeat = 0 AND w.is_answered
    LEFT JOIN runs AS o ON o.run_id = j.run_id
    GROUP BY p.panel, w.response_id, a.criterion
    UNION ALL
    SELECT
        panel,
        response_id,
        metric,
        errors,
        CASE WHEN main_judged + extra_judged = main_planned + extra_planned THEN
            weight_main * coalesce(main_met / nullif(main_planned, 0), 0)
            + (1 - weight_main) * coalesce(extra_met / nullif(extra_planned, 0), 0)
        END,
        weight_main * coalesce(main_met / nullif(main_planned, 0), 0)
            + (1 - weight_main) * coalesce(extra_met / nullif(extra_planned, 0), 0),
        weight_main * coalesce(
            (main_met + main_planned - main_judged) / nullif(main_planned, 0), 0)
            + (1 - weight_main) * coalesce(
                (extra_met + extra_planned - extra_judged) / nullif(extra_planned, 0), 0),
        has_measured,
        has_recorded,
        has_simulated
    FROM (
        SELECT *, CASE WHEN extra_planned = 0 THEN 1 WHEN main_planned = 0 THEN 0 ELSE 0.7 END
            AS weight_main
        FROM claim_counts
    )
    UNION ALL
    -- A response without claims, where others to the same instance have some, is not judged: its
    -- claims were never extracted, or it makes none (the paper leaves that open; null here).
    SELECT s.panel, w.response_id, 'faithfulness', 0, NULL, 0, 1, false, false, false
    FROM planned_responses AS w
    JOIN (
        SELECT DISTINCT c.panel, r.instance_id
        FROM claim_counts AS c JOIN planned_responses AS r USING (response_id)
        WHERE c.metric = 'faithfulness'
    ) AS s ON s.instance_id = w.instance_id
    ANTI JOIN (SELECT * FROM claim_counts WHERE metric = 'faithfulness') AS c
        ON c.panel = s.panel AND c.response_id = w.response_id
)
SELECT
    g.panel,
    w.response_id,
    w.instance_id,
    w.query_id,
    w.model,
    w.setting,
    w.trial,
    w.benchmark,
    w.domain,
    w.language,
    w.context_mode,
    w.variant,
    w.is_augmented,
    concat_ws(', ',
        CASE WHEN w.origin = 'measured' OR g.has_measured THEN 'measured' END,
        CASE WHEN w.origin = 'recorded' OR g.has_recorded THEN 'recorded' END,
        CASE WHEN w.origin = 'simulated' OR g.has_simulated THEN 'simulated' END
    ) AS origin,
    w.is_answered,
    w.is_failed,
    hash(w.query_id) AS query_hash,
    g.metric,
    g.errors::INTEGER AS errors,
    g.value,
    g.lowest,
    g.highest
FROM graded AS g
JOIN planned_responses AS w ON w.response_id = g.response_id;

-- Counts per response and panel; the columns are explained in schema.sql, adherence_summary.
CREATE OR REPLACE VIEW adherence AS
WITH verdicts AS (
    SELECT
        panel,
        response_id,
        count(score) AS judged,
        count(*) FILTER (WHERE score = 1) AS satisfied,
        count(error) AS errors,
        count(*) FILTER (WHERE score IS NOT NULL AND is_triggered IS DISTINCT FROM false) AS triggered,
        count(*) FILTER (WHERE score = 1 AND is_triggered IS DISTINCT FROM false)
            AS triggered_satisfied,
        count(*) FILTER (WHERE score IS NOT NULL AND rule IS NOT NULL) AS rules_judged,
        count(*) FILTER (WHERE score = 1 AND rule IS NOT NULL) AS rules_satisfied,
        count(*) FILTER (WHERE score < 1 AND dimension IN ('format', 'citation')) AS exempt_failed,
        count(score) FILTER (WHERE dimension IN ('format', 'citation')) AS exempt_judged,
        count(*) FILTER (WHERE score IS NOT NULL AND dimension = 'knowledge_gap') AS gap_judged,
        count(*) FILTER (
            WHERE score = 1 AND dimension = 'knowledge_gap' AND is_triggered IS DISTINCT FROM false
        ) AS gap_followed,
        bool_or(origin = 'measured') AS has_measured,
        bool_or(origin = 'recorded') AS has_recorded,
        bool_or(origin = 'simulated') AS has_simulated
    FROM constraint_verdicts
    GROUP BY panel, response_id
)
SELECT
    p.panel,
    w.response_id,
    w.instance_id,
    w.query_id,
    w.model,
    w.setting,
    w.trial,
    w.benchmark,
    w.domain,
    w.language,
    w.context_mode,
    w.variant,
    w.is_augmented,
    concat_ws(', ',
        CASE WHEN w.origin = 'measured' OR v.has_measured OR g.has_measured THEN 'measured' END,
        CASE WHEN w.origin = 'recorded' OR v.has_recorded OR g.has_recorded THEN 'recorded' END,
        CASE WHEN w.origin = 'simulated' OR v.has_simulated OR g.has_simulated THEN 'simulated' END
    ) AS origin,
    w.is_answered,
    w.is_failed,
    coalesce(i.planned, 0)::INTEGER AS planned,
    coalesce(v.judged, 0)::INTEGER AS judged,
    coalesce(v.satisfied, 0)::INTEGER AS satisfied,
    coalesce(v.errors, 0)::INTEGER AS errors,
    coalesce(v.triggered, 0)::INTEGER AS triggered,
    coalesce(v.triggered_satisfied, 0)::INTEGER AS triggered_satisfied,
    coalesce(i.rules_planned, 0)::INTEGER AS rules_planned,
    coalesce(v.rules_judged, 0)::INTEGER AS rules_judged,
    coalesce(v.rules_satisfied, 0)::INTEGER AS rules_satisfied,
    coalesce(v.exempt_failed, 0)::INTEGER AS exempt_failed,
    (coalesce(i.exempt_planned, 0) - coalesce(v.exempt_judged, 0))::INTEGER AS exempt_missing,
    CASE WHEN w.context_mode = 'gap' THEN coalesce(i.gap_planned, 0) ELSE 0 END::INTEGER
        AS gap_planned,
    CASE WHEN w.context_mode = 'gap' THEN coalesce(v.gap_judged, 0) ELSE 0 END::INTEGER
        AS gap_judged,
    CASE WHEN w.context_mode = 'gap' THEN coalesce(v.gap_followed, 0) ELSE 0 END::INTEGER
        AS gap_followed,
    CASE WHEN i.planned > 0 THEN coalesce(v.judged, 0) = i.planned
        ELSE coalesce(g.graded, 0) > 0 AND coalesce(g.errors, 0) = 0 END AS is_judged,
    w.is_failed OR coalesce(v.errors, 0) > 0 OR (i.planned IS NULL AND coalesce(g.errors, 0) > 0)
        AS has_error
FROM planned_responses AS w
CROSS JOIN (SELECT DISTINCT panel FROM panels) AS p
LEFT JOIN instance_plan AS i ON i.instance_id = w.instance_id
LEFT JOIN verdicts AS v ON v.response_id = w.response_id AND v.panel = p.panel
LEFT JOIN (
    SELECT
        panel,
        response_id,
        count(value) AS graded,
        sum(errors) AS errors,
        bool_or(contains(origin, 'measured')) AS has_measured,
        bool_or(contains(origin, 'recorded')) AS has_recorded,
        bool_or(contains(origin, 'simulated')) AS has_simulated
    FROM criterion_scores
    GROUP BY panel, response_id
) AS g ON g.response_id = w.response_id AND g.panel = p.panel;

-- The metrics of a response, from its counts: value (null unless everything it needs was judged),
-- and the lowest and highest value that the missing verdicts allow (null where it does not apply).
CREATE OR REPLACE VIEW response_scores AS
SELECT
    *,
    hash(query_id) AS query_hash,
    -- Loose IAS: share of the constraints satisfied.
    CASE WHEN planned > 0 AND judged = planned THEN satisfied / planned END AS loose_ias,
    CASE WHEN planned > 0 THEN satisfied / planned END AS loose_ias_lowest,
    CASE WHEN planned > 0 THEN (satisfied + planned - judged) / planned END AS loose_ias_highest,
    -- Strict IAS: all satisfied.
    CASE WHEN planned > 0 AND judged = planned THEN (satisfied = planned)::INTEGER END AS strict_ias,
    CASE WHEN planned > 0 THEN (satisfied = planned)::INTEGER END AS strict_ias_lowest,
    CASE WHEN planned > 0 THEN (satisfied = judged)::INTEGER END AS strict_ias_highest,
    -- Strict IAS with format and citation constraints freed where the response rightly followed
    -- the knowledge-gap protocol: a refusal that leaves out the list it was asked for.
    CASE WHEN planned > 0 AND judged = planned THEN (
        satisfied = planned
        OR (gap_planned > 0 AND gap_followed = gap_planned AND satisfied + exempt_failed = planned)
    )::INTEGER END AS strict_ias_refusal_exempt,
    CASE WHEN planned > 0 THEN (
        satisfied = planned
        OR (
            gap_planned > 0 AND gap_followed = gap_planned
            AND satisfied + exempt_failed + exempt_missing = planned
        )
    )::INTEGER END AS strict_ias_refusal_exempt_lowest,
    CASE WHEN planned > 0 THEN (
        satisfied = judged
        OR (gap_planned > 0 AND gap_followed = gap_judged AND satisfied + exempt_failed = judged)
    )::INTEGER END AS strict_ias_refusal_exempt_highest,
    -- The same over constraints whose condition held; a missing verdict may turn out either way.
    CASE WHEN judged = planned AND triggered > 0 THEN triggered_satisfied / triggered END
        AS loose_ias_triggered,
    CASE WHEN triggered + planned - judged > 0
        THEN triggered_satisfied / (triggered + planned - judged) END AS loose_ias_triggered_lowest,
    CASE WHEN triggered + planned - judged > 0
        THEN (triggered_satisfied + planned - judged) / (triggered + planned - judged) END
        AS loose_ias_triggered_highest,
    CASE WHEN judged = planned AND triggered > 0
        THEN (triggered_satisfied = triggered)::INTEGER END AS strict_ias_triggered,
    CASE WHEN triggered + planned - judged > 0
        THEN (triggered_satisfied = triggered + planned - judged)::INTEGER END
        AS strict_ias_triggered_lowest,
    CASE WHEN triggered + planned - judged > 0
        THEN (triggered_satisfied = triggered)::INTEGER END AS strict_ias_triggered_highest,
    -- Over the constraints that a rule checks; never called IAS.
    CASE WHEN rules_planned > 0 AND rules_judged = rules_planned
        THEN rules_satisfied / rules_planned END AS loose_rules,
    CASE WHEN rules_planned > 0 THEN rules_satisfied / rules_planned END AS loose_rules_lowest,
    CASE WHEN rules_planned > 0
        THEN (rules_satisfied + rules_planned - rules_judged) / rules_planned END
        AS loose_rules_highest,
    CASE WHEN rules_planned > 0 AND rules_judged = rules_planned
        THEN (rules_satisfied = rules_planned)::INTEGER END AS strict_rules,
    CASE WHEN rules_planned > 0 THEN (rules_satisfied = rules_planned)::INTEGER END
        AS strict_rules_lowest,
    CASE WHEN rules_planned > 0 THEN (rules_satisfied = rules_judged)::INTEGER END
        AS strict_rules_highest,
    -- Loose IAS pooled over constraints: counts, to be divided after summing.
    CASE WHEN planned > 0 AND judged = planned THEN satisfied END AS loose_pooled,
    CASE WHEN planned > 0 THEN satisfied END AS loose_pooled_lowest,
    CASE WHEN planned > 0 THEN satisfied + planned - judged END AS loose_pooled_highest
FROM adherence;

-- What is kept of these per query, model and setting. `scoped_queries` is what differs: in a fold
-- only the queries it touched.
CREATE OR REPLACE VIEW adherence_sums AS
SELECT
    panel,
    query_id,
    model,
    setting,
    any_value(benchmark) AS benchmark,
    any_value(domain) AS domain,
    any_value(language) AS language,
    array_to_string(list_sort(list_distinct(list(origin))), ', ') AS origin,
    any_value(query_hash) AS query_hash,
    count(*)::INTEGER AS planned,
    count(*) FILTER (WHERE is_answered)::INTEGER AS answered,
    count(*) FILTER (WHERE is_judged)::INTEGER AS judged,
    count(*) FILTER (WHERE has_error)::INTEGER AS errors,
    sum(loose_ias) AS loose_ias,
    count(loose_ias)::DOUBLE AS loose_ias_n,
    sum(strict_ias)::DOUBLE AS strict_ias,
    sum(strict_ias_refusal_exempt)::DOUBLE AS strict_ias_refusal_exempt,
    sum(loose_ias_triggered) AS loose_ias_triggered,
    count(loose_ias_triggered)::DOUBLE AS loose_ias_triggered_n,
    sum(strict_ias_triggered)::DOUBLE AS strict_ias_triggered,
    sum(loose_rules) AS loose_rules,
    count(loose_rules)::DOUBLE AS loose_rules_n,
    sum(strict_rules)::DOUBLE AS strict_rules,
    sum(loose_pooled)::DOUBLE AS loose_pooled,
    sum(planned) FILTER (WHERE loose_ias IS NOT NULL)::DOUBLE AS loose_pooled_n
FROM adherence_summary SEMI JOIN scoped_queries USING (query_id)
GROUP BY panel, query_id, model, setting;

CREATE OR REPLACE VIEW criterion_sums AS
SELECT
    panel,
    query_id,
    model,
    setting,
    any_value(benchmark) AS benchmark,
    any_value(domain) AS domain,
    any_value(language) AS language,
    any_value(query_hash) AS query_hash,
    metric,
    sum(value) AS value,
    count(value)::DOUBLE AS value_n
FROM criterion_summary SEMI JOIN scoped_queries USING (query_id)
GROUP BY panel, query_id, model, setting, metric;
