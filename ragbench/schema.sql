-- The relations of a study. One row means one thing; each column says what.
-- Keys are declared in store.KEYS and kept by the fold, not by indexes: an index on a hundred
-- million verdicts costs more than it guards. ENUMs are for lists that the papers close.

CREATE TYPE context_mode AS ENUM ('noise', 'gap', 'conflict', 'clean', 'integration', 'counterfactual', 'open');
CREATE TYPE category AS ENUM ('persona', 'output', 'protocol', 'operational', 'additional');
CREATE TYPE doc_role AS ENUM ('support', 'noise', 'conflict');
CREATE TYPE claim_kind AS ENUM ('core', 'supplementary', 'response');
CREATE TYPE judge_kind AS ENUM ('rule', 'llm', 'human');
CREATE TYPE origin AS ENUM ('measured', 'recorded', 'simulated');

-- What this file is: always one row.
CREATE TABLE study (
    name            VARCHAR NOT NULL,  -- what the study is called in titles
    primary_panel   VARCHAR,           -- the panel used when none is named; null: the only one with scores, an LLM's first
    schema_version  INTEGER NOT NULL,  -- layout of this file
    licence         VARCHAR            -- under which terms the rows may be passed on
);

-- One execution of a step; every row made by the step points here.
CREATE TABLE runs (
    run_id      VARCHAR NOT NULL,  -- sorts by time of start
    step        VARCHAR NOT NULL,  -- import, build, answer, judge, append, …
    origin      origin NOT NULL,   -- measured by the owner of the file, recorded earlier, or simulated
    config      JSON,              -- what the step was asked to do
    version     VARCHAR,           -- ragbench version
    started_at  TIMESTAMP          -- UTC
);

-- A response that a run asked for; an import wants what it brings.
CREATE TABLE wanted (
    instance_id  VARCHAR NOT NULL,
    model        VARCHAR NOT NULL,
    setting      VARCHAR NOT NULL,  -- how the response is made: given_context, closed_book, …
    trial        INTEGER NOT NULL,  -- 0, 1, … for repeated generation
    run_id       VARCHAR NOT NULL
);

-- A model under test.
CREATE TABLE models (
    model     VARCHAR NOT NULL,
    label     VARCHAR,  -- short name for figures
    family    VARCHAR,
    paradigm  VARCHAR,  -- reasoning or standard
    is_open   BOOLEAN,  -- weights are public
    params_b  DOUBLE    -- billions of parameters
);

-- A rule set, an LLM with its settings and prompts, or a person. Another prompt is another judge.
CREATE TABLE judges (
    judge    VARCHAR NOT NULL,
    kind     judge_kind NOT NULL,
    model    VARCHAR,
    params   JSON,
    prompts  JSON     -- criterion -> hash of its prompt
);

-- Sub-dimensions of the taxonomy (Table 4), the extra groups of the prompts, and a user's own.
CREATE TABLE dimensions (
    dimension    VARCHAR NOT NULL,
    category     category NOT NULL,
    label        VARCHAR,
    description  VARCHAR
);

-- What a score means.
CREATE TABLE criteria (
    criterion    VARCHAR NOT NULL,
    target       VARCHAR NOT NULL,  -- what is graded: constraint, response or claim
    lowest       DOUBLE NOT NULL,   -- worst score
    highest      DOUBLE NOT NULL,   -- best score
    prompt       VARCHAR,           -- name of the prompt file, null when no LLM grades it
    description  VARCHAR
);

-- A user question.
CREATE TABLE queries (
    query_id   VARCHAR NOT NULL,
    benchmark  VARCHAR,
    domain     VARCHAR,
    language   VARCHAR,  -- zh, en, …
    text       VARCHAR,
    answers    JSON      -- accepted answers, where a benchmark has them
);

-- One atomic instruction of a query.
CREATE TABLE constraints (
    constraint_id  VARCHAR NOT NULL,
    query_id       VARCHAR NOT NULL,
    dimension      VARCHAR NOT NULL,
    text           VARCHAR,
    rule           VARCHAR,  -- predicate that checks it; null: a person or an LLM judges
    params         JSON,     -- named arguments of the rule
    judge_prompt   VARCHAR   -- what an LLM judge is told about it
);

-- A passage.
CREATE TABLE documents (
    doc_id        VARCHAR NOT NULL,
    title         VARCHAR,
    text          VARCHAR,
    source        VARCHAR,
    published_on  DATE
);

-- A query under one retrieval condition and one constraint set.
CREATE TABLE instances (
    instance_id   VARCHAR NOT NULL,
    query_id      VARCHAR NOT NULL,
    context_mode  context_mode NOT NULL,
    variant       VARCHAR,  -- tells instances of one query and mode apart
    is_augmented  BOOLEAN,  -- the condition was made rather than found
    witness       VARCHAR   -- a text known to satisfy every constraint at once
);

-- The instruction set shown with an instance, in order.
CREATE TABLE instance_constraints (
    instance_id    VARCHAR NOT NULL,
    ordinal        INTEGER NOT NULL,
    constraint_id  VARCHAR NOT NULL
);

-- A document shown with an instance, in order.
CREATE TABLE contexts (
    instance_id  VARCHAR NOT NULL,
    rank         INTEGER NOT NULL,
    doc_id       VARCHAR NOT NULL,
    role         doc_role,
    score        DOUBLE  -- of the retriever
);

-- What contradicts what in the context of an instance.
CREATE TABLE conflict_points (
    instance_id     VARCHAR NOT NULL,
    point           INTEGER NOT NULL,
    doc_ids         VARCHAR[],
    summary         VARCHAR,
    affects_answer  BOOLEAN
);

-- One answer, or the error that took its place.
CREATE TABLE responses (
    response_id       VARCHAR NOT NULL,  -- instance_id/model/setting/trial
    instance_id       VARCHAR NOT NULL,
    model             VARCHAR NOT NULL,
    setting           VARCHAR NOT NULL,
    trial             INTEGER NOT NULL,
    text              VARCHAR,  -- what is judged; null with an error, or when only verdicts were imported
    reasoning         VARCHAR,  -- kept apart from what is judged
    finish            VARCHAR,  -- stop, length, …
    error             VARCHAR,
    input_tokens      BIGINT,
    cached_tokens     BIGINT,
    output_tokens     BIGINT,
    reasoning_tokens  BIGINT,
    cost              DOUBLE,   -- US dollars
    seconds           DOUBLE,
    endpoint          VARCHAR,
    run_id            VARCHAR NOT NULL
);

-- One tool call of an agent.
CREATE TABLE steps (
    response_id  VARCHAR NOT NULL,
    step         INTEGER NOT NULL,
    tool         VARCHAR,
    arguments    JSON,
    result       VARCHAR,
    tokens       BIGINT,
    run_id       VARCHAR NOT NULL
);

-- A fact in a context (core, supplementary) or in a response.
CREATE TABLE claims (
    claim_id     VARCHAR NOT NULL,
    instance_id  VARCHAR NOT NULL,
    response_id  VARCHAR,  -- set for kind 'response' only
    kind         claim_kind NOT NULL,
    text         VARCHAR,  -- empty: its extractor looked and found none; null: it failed
    extractor    VARCHAR   -- judge that extracted it; null: shared by all judges
);

-- One verdict: one criterion of one response, graded by one judge.
CREATE TABLE judgments (
    response_id   VARCHAR NOT NULL,
    criterion     VARCHAR NOT NULL,
    target_id     VARCHAR NOT NULL,  -- constraint, claim, or the response itself
    judge         VARCHAR NOT NULL,
    repeat        INTEGER NOT NULL,  -- 0 is the one that counts; further ones measure stability
    score         DOUBLE,
    is_triggered  BOOLEAN,           -- false: the condition of a conditional constraint did not hold
    error         VARCHAR,           -- why there is no score
    run_id        VARCHAR NOT NULL,
    CHECK ((score IS NULL) <> (error IS NULL)),
    CHECK (score IS NULL OR isfinite(score))
);

-- Why a verdict is what it is, and what it took: all tries of the judge together, said once where
-- one call gave several verdicts, so that sums are right.
CREATE TABLE evidence (
    response_id       VARCHAR NOT NULL,
    criterion         VARCHAR NOT NULL,
    target_id         VARCHAR NOT NULL,
    judge             VARCHAR NOT NULL,
    repeat            INTEGER NOT NULL,
    reason            VARCHAR,  -- measured quantity, or the judge's words
    raw               VARCHAR,  -- the judge's whole reply, or the value an import brought
    parse_path        VARCHAR,  -- how the verdict was read out of raw
    input_tokens      BIGINT,
    cached_tokens     BIGINT,
    output_tokens     BIGINT,
    reasoning_tokens  BIGINT,
    cost              DOUBLE,   -- US dollars
    seconds           DOUBLE,
    endpoint          VARCHAR,  -- with the exact version that answered
    run_id            VARCHAR NOT NULL
);

-- A check of an instance before use; the kind of its judge says whether a person made it.
CREATE TABLE verifications (
    instance_id  VARCHAR NOT NULL,
    "check"      VARCHAR NOT NULL,
    judge        VARCHAR NOT NULL,
    passed       BOOLEAN NOT NULL,
    note         VARCHAR
);

-- A graph.
CREATE TABLE nodes (
    node_id    VARCHAR NOT NULL,
    kind       VARCHAR,
    title      VARCHAR,
    text       VARCHAR,
    embedding  FLOAT[]
);
CREATE TABLE edges (
    source    VARCHAR NOT NULL,
    relation  VARCHAR NOT NULL,
    target    VARCHAR NOT NULL
);

-- Derived, and brought up to date by every fold: what the views `response_scores` and
-- `criterion_scores` say (scores.sql), kept so that slices stay fast.
CREATE TABLE adherence_summary (
    panel                 VARCHAR NOT NULL,
    response_id           VARCHAR NOT NULL,
    instance_id           VARCHAR NOT NULL,
    query_id              VARCHAR NOT NULL,
    model                 VARCHAR NOT NULL,
    setting               VARCHAR NOT NULL,
    trial                 INTEGER NOT NULL,
    benchmark             VARCHAR,
    domain                VARCHAR,
    language              VARCHAR,
    context_mode          VARCHAR,
    variant               VARCHAR,
    is_augmented          BOOLEAN,
    origin                VARCHAR,           -- of the response and its verdicts, joined by ", "
    is_answered           BOOLEAN NOT NULL,
    is_failed             BOOLEAN NOT NULL,  -- the response is an error
    planned               INTEGER NOT NULL,  -- constraints of the instance
    judged                INTEGER NOT NULL,  -- of these, with a score from the panel
    satisfied             INTEGER NOT NULL,
    errors                INTEGER NOT NULL,  -- of these, with an error from the panel
    triggered             INTEGER NOT NULL,  -- judged and not marked as untriggered
    triggered_satisfied   INTEGER NOT NULL,
    rules_planned         INTEGER NOT NULL,  -- constraints that a rule checks
    rules_judged          INTEGER NOT NULL,
    rules_satisfied       INTEGER NOT NULL,
    exempt_failed         INTEGER NOT NULL,  -- failed constraints on format and citation
    exempt_missing        INTEGER NOT NULL,  -- such constraints without a score
    gap_planned           INTEGER NOT NULL,  -- constraints on knowledge gaps, in a gap context
    gap_judged            INTEGER NOT NULL,
    gap_followed          INTEGER NOT NULL,  -- of these, triggered and satisfied
    is_judged             BOOLEAN NOT NULL,  -- every constraint has a score (none planned: a criterion, without error)
    has_error             BOOLEAN NOT NULL,  -- lost to an error of the response or of a verdict
    query_hash            UBIGINT NOT NULL,  -- of query_id, quick to group by
    -- The metrics, explained in scores.sql: value (null unless judged in full), and the lowest and
    -- highest that the missing verdicts allow (null where the metric does not apply).
    loose_ias                          DOUBLE,  -- share of the constraints satisfied
    loose_ias_lowest                   DOUBLE,
    loose_ias_highest                  DOUBLE,
    strict_ias                         DOUBLE,  -- 1 when all are
    strict_ias_lowest                  DOUBLE,
    strict_ias_highest                 DOUBLE,
    strict_ias_refusal_exempt          DOUBLE,  -- the same, with format and citation freed in a right refusal
    strict_ias_refusal_exempt_lowest   DOUBLE,
    strict_ias_refusal_exempt_highest  DOUBLE,
    loose_ias_triggered                DOUBLE,  -- over constraints whose condition held
    loose_ias_triggered_lowest         DOUBLE,
    loose_ias_triggered_highest        DOUBLE,
    strict_ias_triggered               DOUBLE,
    strict_ias_triggered_lowest        DOUBLE,
    strict_ias_triggered_highest       DOUBLE,
    loose_rules                        DOUBLE,  -- over constraints that a rule checks
    loose_rules_lowest                 DOUBLE,
    loose_rules_highest                DOUBLE,
    strict_rules                       DOUBLE,
    strict_rules_lowest                DOUBLE,
    strict_rules_highest               DOUBLE,
    loose_pooled                       DOUBLE,  -- constraints satisfied, to be divided after summing
    loose_pooled_lowest                DOUBLE,
    loose_pooled_highest               DOUBLE
);
CREATE TABLE criterion_summary (
    panel         VARCHAR NOT NULL,
    response_id   VARCHAR NOT NULL,
    instance_id   VARCHAR NOT NULL,
    query_id      VARCHAR NOT NULL,
    model         VARCHAR NOT NULL,
    setting       VARCHAR NOT NULL,
    trial         INTEGER NOT NULL,
    benchmark     VARCHAR,
    domain        VARCHAR,
    language      VARCHAR,
    context_mode  VARCHAR,
    variant       VARCHAR,
    is_augmented  BOOLEAN,
    origin        VARCHAR,
    is_answered   BOOLEAN NOT NULL,
    is_failed     BOOLEAN NOT NULL,
    query_hash    UBIGINT NOT NULL,
    metric        VARCHAR NOT NULL,  -- a criterion that targets responses, or faithfulness, or coverage
    errors        INTEGER NOT NULL,
    value         DOUBLE,            -- null unless everything planned was judged
    lowest        DOUBLE NOT NULL,   -- the value if all that is missing failed
    highest       DOUBLE NOT NULL    -- the value if all that is missing succeeded
);

-- The two summaries above, added up per query, model and setting (scores.sql): what most slices need,
-- so that an interval clustered by query costs no grouping of millions of responses.
CREATE TABLE adherence_by_query (
    panel       VARCHAR NOT NULL,
    query_id    VARCHAR NOT NULL,
    model       VARCHAR NOT NULL,
    setting     VARCHAR NOT NULL,
    benchmark   VARCHAR,
    domain      VARCHAR,
    language    VARCHAR,
    origin      VARCHAR,
    query_hash  UBIGINT NOT NULL,
    planned     INTEGER NOT NULL,  -- responses, and how many are answered, judged, lost to an error
    answered    INTEGER NOT NULL,
    judged      INTEGER NOT NULL,
    errors      INTEGER NOT NULL,
    -- Each metric summed, and its n where no other metric has the same.
    loose_ias                  DOUBLE,
    loose_ias_n                DOUBLE NOT NULL,
    strict_ias                 DOUBLE,
    strict_ias_refusal_exempt  DOUBLE,
    loose_ias_triggered        DOUBLE,
    loose_ias_triggered_n      DOUBLE NOT NULL,
    strict_ias_triggered       DOUBLE,
    loose_rules                DOUBLE,
    loose_rules_n              DOUBLE NOT NULL,
    strict_rules               DOUBLE,
    loose_pooled               DOUBLE,
    loose_pooled_n             DOUBLE           -- constraints
);
CREATE TABLE criterion_by_query (
    panel       VARCHAR NOT NULL,
    query_id    VARCHAR NOT NULL,
    model       VARCHAR NOT NULL,
    setting     VARCHAR NOT NULL,
    benchmark   VARCHAR,
    domain      VARCHAR,
    language    VARCHAR,
    query_hash  UBIGINT NOT NULL,
    metric      VARCHAR NOT NULL,
    value       DOUBLE,
    value_n     DOUBLE NOT NULL
);

-- How far each journal has been folded.
CREATE TABLE folded (
    journal  VARCHAR NOT NULL,
    bytes    BIGINT NOT NULL
);
