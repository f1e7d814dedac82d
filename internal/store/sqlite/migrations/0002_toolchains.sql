-- Toolchains: who declares them, what they declare, and the computers that have them. Written as 0001 says.

-- +goose Up
CREATE TABLE teams (
    name       TEXT   NOT NULL PRIMARY KEY,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);

CREATE TABLE people (
    login      TEXT   NOT NULL PRIMARY KEY,
    created_at BIGINT NOT NULL
);

CREATE TABLE members (
    team  TEXT NOT NULL REFERENCES teams (name) ON DELETE CASCADE,
    login TEXT NOT NULL REFERENCES people (login) ON DELETE CASCADE,
    PRIMARY KEY (team, login)
);
CREATE INDEX members_login ON members (login, team);

-- The organisation, and each team and person, as that which declares. What a scope has refers to it and holds it, so that no
-- team or person is deleted over what is theirs, and none that comes later by the same name finds it.
CREATE TABLE scopes (
    scope TEXT NOT NULL PRIMARY KEY
);
INSERT INTO scopes (scope) VALUES ('organisation');

CREATE TABLE rooms (
    name       TEXT    NOT NULL PRIMARY KEY,
    team       TEXT    REFERENCES teams (name),  -- NULL: the organisation's
    internal   BOOLEAN NOT NULL,
    created_at BIGINT  NOT NULL,
    updated_at BIGINT  NOT NULL
);
CREATE INDEX rooms_team ON rooms (team);

CREATE TABLE conversations (
    id         TEXT   NOT NULL PRIMARY KEY,
    kind       TEXT   NOT NULL,
    person     TEXT   REFERENCES people (login) ON DELETE CASCADE,
    team       TEXT   REFERENCES teams (name) ON DELETE SET NULL,
    room       TEXT   REFERENCES rooms (name) ON DELETE CASCADE,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);
CREATE INDEX conversations_person ON conversations (person);
CREATE INDEX conversations_team ON conversations (team);
CREATE INDEX conversations_room ON conversations (room);

CREATE TABLE plugins (
    id         TEXT   NOT NULL PRIMARY KEY,
    scope      TEXT   NOT NULL REFERENCES scopes (scope),
    name       TEXT   NOT NULL,
    created_at BIGINT NOT NULL,
    record     TEXT   NOT NULL,
    UNIQUE (scope, name)
);
CREATE INDEX plugins_newest ON plugins (created_at, id);

CREATE TABLE items (
    scope      TEXT    NOT NULL REFERENCES scopes (scope),
    key        TEXT    NOT NULL,
    plugin     TEXT    REFERENCES plugins (id) ON DELETE CASCADE,  -- NULL: it came with none
    mode       TEXT    NOT NULL,
    enabled    BOOLEAN NOT NULL,
    locked     BOOLEAN NOT NULL,
    updated_at BIGINT  NOT NULL,
    findings   TEXT    NOT NULL,
    definition TEXT    NOT NULL,
    contents   BYTEA   NOT NULL,           -- of the definition's files: up to a megabyte
    PRIMARY KEY (scope, key)
);
CREATE INDEX items_key ON items (key);
CREATE INDEX items_plugin ON items (plugin);

CREATE TABLE choices (
    scope      TEXT   NOT NULL REFERENCES scopes (scope),
    key        TEXT   NOT NULL,
    state      TEXT   NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (scope, key)
);
CREATE INDEX choices_key ON choices (key);

CREATE TABLE policies (
    scope      TEXT   NOT NULL PRIMARY KEY REFERENCES scopes (scope),
    updated_at BIGINT NOT NULL,
    egress     TEXT   NOT NULL
);

-- One row: raised by every transaction that changes what scopes declare, or who is in a team.
CREATE TABLE declared (
    at BIGINT NOT NULL
);
INSERT INTO declared (at) VALUES (0);

CREATE TABLE secrets (
    scope      TEXT   NOT NULL REFERENCES scopes (scope),
    name       TEXT   NOT NULL,
    created_by TEXT   NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    sealed     BYTEA  NOT NULL,
    PRIMARY KEY (scope, name)
);

CREATE TABLE sets (
    hash         TEXT   NOT NULL PRIMARY KEY,
    created_at   BIGINT NOT NULL,
    used_at      BIGINT NOT NULL,
    next_refresh BIGINT NOT NULL,
    image        TEXT   NOT NULL,          -- the bundle's, or empty
    bundle       TEXT   NOT NULL,
    resolved     TEXT   NOT NULL,          -- the set, which never changes
    contents     BYTEA  NOT NULL           -- of its items' files
);
CREATE INDEX sets_used ON sets (used_at, hash);

CREATE TABLE computers (
    id         TEXT   NOT NULL PRIMARY KEY,
    person     TEXT   REFERENCES people (login),
    room       TEXT   REFERENCES rooms (name),
    created_at BIGINT NOT NULL,
    errors     BIGINT NOT NULL DEFAULT 0,  -- the last number given to an entry of the error log
    root       TEXT   NOT NULL,
    record     TEXT   NOT NULL,
    CHECK ((person IS NULL) <> (room IS NULL))
);
CREATE INDEX computers_person ON computers (person);
CREATE INDEX computers_room ON computers (room);

-- The sets that a computer's record names, for those that ask which are needed.
CREATE TABLE computer_sets (
    computer TEXT NOT NULL REFERENCES computers (id) ON DELETE CASCADE,
    hash     TEXT NOT NULL,
    PRIMARY KEY (computer, hash)
);
CREATE INDEX computer_sets_hash ON computer_sets (hash);

CREATE TABLE computer_errors (
    computer TEXT   NOT NULL REFERENCES computers (id) ON DELETE CASCADE,
    n        BIGINT NOT NULL,
    entry    TEXT   NOT NULL,
    PRIMARY KEY (computer, n)
);

-- +goose Down
DROP TABLE computer_errors;
DROP TABLE computer_sets;
DROP TABLE computers;
DROP TABLE sets;
DROP TABLE secrets;
DROP TABLE declared;
DROP TABLE policies;
DROP TABLE choices;
DROP TABLE items;
DROP TABLE plugins;
DROP TABLE conversations;
DROP TABLE rooms;
DROP TABLE scopes;
DROP TABLE members;
DROP TABLE people;
DROP TABLE teams;
