-- Written in what SQLite and PostgreSQL both understand. Times are microseconds since 1970 in UTC; nested values are JSON
-- in text; what is filtered or ordered has a column. Text compares by its bytes. Large columns stand last, so that a scan
-- that filters does not read them.

-- +goose Up
CREATE TABLE environments (
    id         TEXT   NOT NULL PRIMARY KEY,
    slug       TEXT   NOT NULL UNIQUE,
    owner      TEXT   NOT NULL,
    name       TEXT   NOT NULL,
    active     BIGINT,                     -- number of the active version
    builds     BIGINT NOT NULL DEFAULT 0,  -- the last number given to a build
    versions   BIGINT NOT NULL DEFAULT 0,  -- the last number given to a version: never given twice
    files      BIGINT NOT NULL DEFAULT 0,
    bytes      BIGINT NOT NULL DEFAULT 0,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    tree_info  TEXT   NOT NULL DEFAULT '{}',
    settings   TEXT   NOT NULL             -- packages, interpreter, index, check, scripts, egress
);
CREATE INDEX environments_newest ON environments (created_at, id);
CREATE INDEX environments_owner ON environments (owner, created_at, id);

CREATE TABLE tree (
    environment TEXT    NOT NULL REFERENCES environments (id) ON DELETE CASCADE,
    path        TEXT    NOT NULL,
    type        TEXT    NOT NULL,
    size        BIGINT  NOT NULL,
    executable  BOOLEAN NOT NULL,
    target      TEXT    NOT NULL,
    digest      TEXT    NOT NULL,
    PRIMARY KEY (environment, path)
);

CREATE TABLE builds (
    environment TEXT    NOT NULL REFERENCES environments (id) ON DELETE CASCADE,
    n           BIGINT  NOT NULL,
    status      TEXT    NOT NULL,
    created_by  TEXT    NOT NULL,
    created_at  BIGINT  NOT NULL,
    started_at  BIGINT,
    ended_at    BIGINT,
    worker      TEXT    NOT NULL DEFAULT '',
    lease_until BIGINT  NOT NULL DEFAULT 0,
    cancel      BOOLEAN NOT NULL DEFAULT FALSE,
    snapshot    TEXT    NOT NULL,
    progress    TEXT    NOT NULL,          -- step, steps, elapsed time, error, version, warnings
    spec        TEXT    NOT NULL,
    PRIMARY KEY (environment, n)
);
-- One build of an environment at a time; also the queue.
CREATE UNIQUE INDEX builds_unfinished ON builds (environment) WHERE status IN ('queued', 'running');
CREATE INDEX builds_queue ON builds (created_at, environment) WHERE status IN ('queued', 'running');

CREATE TABLE versions (
    environment TEXT   NOT NULL REFERENCES environments (id) ON DELETE CASCADE,
    n           BIGINT NOT NULL,
    build       BIGINT NOT NULL,
    digest      TEXT   NOT NULL,
    bytes       BIGINT NOT NULL,
    created_at  BIGINT NOT NULL,
    snapshot    TEXT   NOT NULL,
    manifest    TEXT   NOT NULL,
    PRIMARY KEY (environment, n)
);

CREATE TABLE steps (
    key     TEXT   NOT NULL PRIMARY KEY,
    image   TEXT   NOT NULL,
    bytes   BIGINT NOT NULL,
    used_at BIGINT NOT NULL,
    data    TEXT   NOT NULL
);
CREATE INDEX steps_used ON steps (used_at);

CREATE TABLE harnesses (
    id         TEXT   NOT NULL PRIMARY KEY,
    owner      TEXT   NOT NULL,
    created_at BIGINT NOT NULL,
    harness    TEXT   NOT NULL
);
CREATE INDEX harnesses_newest ON harnesses (created_at, id);

CREATE TABLE tasks (
    id          TEXT    NOT NULL PRIMARY KEY,
    owner       TEXT    NOT NULL,
    harness     TEXT    NOT NULL,
    environment TEXT    NOT NULL,
    status      TEXT    NOT NULL,
    created_at  BIGINT  NOT NULL,
    ended_at    BIGINT,
    purged      BOOLEAN NOT NULL DEFAULT FALSE,
    record      TEXT    NOT NULL
);
CREATE INDEX tasks_newest ON tasks (created_at, id);
CREATE INDEX tasks_queued ON tasks (created_at, id) WHERE status = 'queued';
CREATE INDEX tasks_unfinished ON tasks (status) WHERE status IN ('queued', 'running');

-- Apart from tasks: up to megabytes, written once and read once.
CREATE TABLE task_inputs (
    task  TEXT  NOT NULL PRIMARY KEY REFERENCES tasks (id) ON DELETE CASCADE,
    input BYTEA NOT NULL
);

CREATE TABLE keys (
    id           TEXT   NOT NULL PRIMARY KEY,
    hash         TEXT   NOT NULL UNIQUE,
    name         TEXT   NOT NULL,
    kind         TEXT   NOT NULL,
    subject      TEXT   NOT NULL,
    created_by   TEXT   NOT NULL,
    created_at   BIGINT NOT NULL,
    revoked_at   BIGINT,
    last_used_at BIGINT
);
CREATE INDEX keys_newest ON keys (created_at, id);

CREATE TABLE audit (
    id     TEXT   NOT NULL PRIMARY KEY,
    at     BIGINT NOT NULL,
    actor  TEXT   NOT NULL,
    key_id TEXT   NOT NULL,
    action TEXT   NOT NULL,
    target TEXT   NOT NULL,
    detail TEXT   NOT NULL
);
CREATE INDEX audit_newest ON audit (at, id);
CREATE INDEX audit_target ON audit (target, at, id);

CREATE TABLE requests (
    caller       TEXT   NOT NULL,
    key          TEXT   NOT NULL,
    request_hash TEXT   NOT NULL,
    claimed_at   BIGINT NOT NULL,
    response     BYTEA,                    -- NULL while the request runs
    PRIMARY KEY (caller, key)
);
CREATE INDEX requests_claimed ON requests (claimed_at);

CREATE TABLE settings (
    name  TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
);

-- +goose Down
DROP TABLE settings;
DROP TABLE requests;
DROP TABLE audit;
DROP TABLE keys;
DROP TABLE task_inputs;
DROP TABLE tasks;
DROP TABLE harnesses;
DROP TABLE steps;
DROP TABLE versions;
DROP TABLE builds;
DROP TABLE tree;
DROP TABLE environments;
