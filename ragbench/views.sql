-- What was planned and what was judged. Two readers use this text: the fold and every connection.
-- `scoped` is what differs: there all of `wanted`, in a fold only the instances it touched.
-- The metrics over these views are in scores.sql.

-- A panel: a judge together with the rule verdicts on constraints that a rule checks. A rule set
-- alone is a panel too. Two rule sets, or two versions of one, make two panels: never one number.
CREATE OR REPLACE VIEW panels AS
WITH rule_sets AS (SELECT judge FROM judges WHERE kind = 'rule')
SELECT judge AS panel, judge, judge AS rules, 'rule' AS kind FROM rule_sets
UNION ALL
SELECT
    CASE WHEN r.judge IS NULL THEN g.judge ELSE g.judge || ' + ' || r.judge END AS panel,
    g.judge,
    coalesce(r.judge, g.judge) AS rules,  -- with no rule set in the study the judge checks all
    g.kind::VARCHAR AS kind
FROM judges AS g LEFT JOIN rule_sets AS r ON true
WHERE g.kind <> 'rule';

-- Every response that a run asked for, made or not. Instances that failed a check are not live.
CREATE OR REPLACE VIEW planned_responses AS
SELECT
    w.instance_id || '/' || w.model || '/' || w.setting || '/' || w.trial AS response_id,
    w.instance_id,
    coalesce(i.query_id, w.instance_id) AS query_id,
    w.model,
    w.setting,
    w.trial,
    q.benchmark,
    q.domain,
    q.language,
    i.context_mode::VARCHAR AS context_mode,
    i.variant,
    i.is_augmented,
    o.origin::VARCHAR AS origin,
    r.response_id IS NOT NULL AND r.error IS NULL AS is_answered,
    r.error IS NOT NULL AS is_failed
FROM scoped AS w
LEFT JOIN instances AS i ON i.instance_id = w.instance_id
LEFT JOIN queries AS q ON q.query_id = i.query_id
LEFT JOIN responses AS r
    ON r.response_id = w.instance_id || '/' || w.model || '/' || w.setting || '/' || w.trial
LEFT JOIN runs AS o ON o.run_id = coalesce(r.run_id, w.run_id)
ANTI JOIN (SELECT instance_id FROM verifications WHERE NOT passed) AS f
    ON f.instance_id = w.instance_id;

-- What has to be judged for each instance.
CREATE OR REPLACE VIEW instance_plan AS
SELECT
    ic.instance_id,
    count(*) AS planned,
    count(c.rule) AS rules_planned,
    count(*) FILTER (WHERE c.dimension = 'knowledge_gap') AS gap_planned,
    count(*) FILTER (WHERE c.dimension IN ('format', 'citation')) AS exempt_planned
FROM instance_constraints AS ic
LEFT JOIN constraints AS c USING (constraint_id)
GROUP BY ic.instance_id;

-- The verdict that counts (repeat 0) on each constraint of each response, under each panel.
-- A verdict on a constraint that the instance did not show counts for nothing.
CREATE OR REPLACE VIEW constraint_verdicts AS
SELECT
    p.panel,
    w.response_id,
    c.constraint_id,
    c.dimension,
    c.rule,
    j.score,
    j.is_triggered,
    j.error,
    o.origin
FROM judgments AS j
JOIN planned_responses AS w ON w.response_id = j.response_id AND w.is_answered
JOIN instance_constraints AS ic
    ON ic.instance_id = w.instance_id AND ic.constraint_id = j.target_id
JOIN constraints AS c ON c.constraint_id = j.target_id
JOIN panels AS p ON j.judge = CASE WHEN c.rule IS NULL THEN p.judge ELSE p.rules END
LEFT JOIN runs AS o ON o.run_id = j.run_id
WHERE j.criterion = 'adherence' AND j.repeat = 0;

-- Criteria that grade a whole response apply where they are defined to (rejection in a gap,
-- conflict in a conflict) and wherever anybody has judged the instance by them.
CREATE OR REPLACE VIEW applicable AS
SELECT DISTINCT w.instance_id, j.criterion
FROM judgments AS j
JOIN criteria AS c ON c.criterion = j.criterion AND c.target = 'response'
JOIN planned_responses AS w ON w.response_id = j.response_id
UNION
SELECT instance_id, CASE WHEN context_mode = 'gap' THEN 'rejection' ELSE 'conflict' END
FROM instances WHERE context_mode IN ('gap', 'conflict');

-- Claims counted per response and panel. A claim with an extractor belongs to that judge's panels.
-- In a gap there is nothing to cover: declining is right there, and `rejection` measures it.
-- A claim with an empty text only says that its extractor looked and found none.
CREATE OR REPLACE VIEW claim_counts AS
WITH sets AS (
    SELECT p.panel, p.judge, w.response_id, w.is_answered, c.claim_id, c.kind, 'coverage' AS metric
    FROM planned_responses AS w
    JOIN claims AS c ON c.instance_id = w.instance_id AND c.kind <> 'response'
        AND w.context_mode IS DISTINCT FROM 'gap' AND c.text IS DISTINCT FROM ''
    JOIN panels AS p ON c.extractor IS NULL OR c.extractor = p.judge
    UNION ALL
    SELECT p.panel, p.judge, w.response_id, w.is_answered, c.claim_id, c.kind, 'faithfulness'
    FROM planned_responses AS w
    JOIN claims AS c ON c.response_id = w.response_id AND c.kind = 'response'
        AND c.text IS DISTINCT FROM ''
    JOIN panels AS p ON c.extractor IS NULL OR c.extractor = p.judge
)
SELECT
    s.panel,
    s.response_id,
    s.metric,
    count(*) FILTER (WHERE s.kind <> 'supplementary') AS main_planned,
    count(j.score) FILTER (WHERE s.kind <> 'supplementary') AS main_judged,
    count(*) FILTER (WHERE s.kind <> 'supplementary' AND j.score = 1) AS main_met,
    count(*) FILTER (WHERE s.kind = 'supplementary') AS extra_planned,
    count(j.score) FILTER (WHERE s.kind = 'supplementary') AS extra_judged,
    count(*) FILTER (WHERE s.kind = 'supplementary' AND j.score = 1) AS extra_met,
    count(j.error) AS errors,
    bool_or(o.origin = 'measured') AS has_measured,
    bool_or(o.origin = 'recorded') AS has_recorded,
    bool_or(o.origin = 'simulated') AS has_simulated
FROM sets AS s
LEFT JOIN judgments AS j
    ON j.response_id = s.response_id AND j.criterion = s.metric AND j.target_id = s.claim_id
    AND j.judge = s.judge AND j.repeat = 0 AND s.is_answered
LEFT JOIN runs AS o ON o.run_id = j.run_id
GROUP BY s.panel, s.response_id, s.metric;
