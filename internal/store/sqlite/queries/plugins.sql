-- name: InsertPlugin :exec
INSERT INTO plugins (id, scope, name, created_at, record) VALUES ($1, $2, $3, $4, $5);

-- name: GetPlugin :one
SELECT record FROM plugins WHERE id = $1;

-- name: ListPlugins :many
SELECT record FROM plugins
WHERE (CAST(sqlc.arg(scope) AS TEXT) = '' OR scope = sqlc.arg(scope)) AND id < sqlc.arg(before)
ORDER BY id DESC LIMIT sqlc.arg(count);

-- name: PluginsNamed :many
SELECT id, scope FROM plugins WHERE name = $1;

-- name: UpdatePlugin :exec
UPDATE plugins SET name = $2, record = $3 WHERE id = $1;

-- name: DeletePlugin :execrows
DELETE FROM plugins WHERE id = $1;

-- name: ItemsOfPlugin :many
SELECT * FROM items WHERE plugin = $1 ORDER BY key;

-- name: KeysOfPlugin :many
SELECT key FROM items WHERE plugin = $1 ORDER BY key;

-- name: InsertItem :exec
INSERT INTO items (scope, key, plugin, mode, enabled, locked, updated_at, findings, definition, contents)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10);

-- name: ReplaceItem :exec
UPDATE items SET mode = $3, enabled = $4, locked = $5, updated_at = $6, findings = $7, definition = $8, contents = $9 WHERE scope = $1 AND key = $2;

-- name: GetItem :one
SELECT * FROM items WHERE scope = $1 AND key = $2;

-- name: OfferItem :exec
UPDATE items SET mode = $3, enabled = $4, locked = $5, updated_at = $6 WHERE scope = $1 AND key = $2;

-- name: DeleteItem :execrows
DELETE FROM items WHERE scope = $1 AND key = $2;

-- Whether a scope reads an item of that key: its own, the organisation's, or that of a team that the person is in. "person:" is
-- seven characters long.
-- name: ReadsKey :one
SELECT EXISTS (
    SELECT 1 FROM items
    WHERE items.key = sqlc.arg(key)
      AND (items.scope = 'organisation' OR items.scope = CAST(sqlc.arg(scope) AS TEXT)
           OR items.scope IN (SELECT 'team:' || members.team FROM members WHERE members.login = CAST(sqlc.arg(person) AS TEXT))));

-- The choices about a key that are about no item any more; the same as above for each.
-- name: DropChoices :exec
DELETE FROM choices
WHERE choices.key = sqlc.arg(key) AND NOT EXISTS (
    SELECT 1 FROM items
    WHERE items.key = choices.key
      AND (items.scope = 'organisation' OR items.scope = choices.scope
           OR choices.scope LIKE 'person:%'
              AND items.scope IN (SELECT 'team:' || members.team FROM members WHERE members.login = SUBSTR(choices.scope, 8))));

-- name: PutChoice :exec
INSERT INTO choices (scope, key, state, updated_at) VALUES ($1, $2, $3, $4)
ON CONFLICT (scope, key) DO UPDATE SET state = excluded.state, updated_at = excluded.updated_at;

-- name: DeleteChoice :exec
DELETE FROM choices WHERE scope = $1 AND key = $2;

-- name: PutPolicy :exec
INSERT INTO policies (scope, updated_at, egress) VALUES ($1, $2, $3)
ON CONFLICT (scope) DO UPDATE SET updated_at = excluded.updated_at, egress = excluded.egress;

-- name: DeletePolicy :exec
DELETE FROM policies WHERE scope = $1;

-- name: ItemsBetween :many
SELECT * FROM items WHERE scope >= sqlc.arg(first) AND scope <= sqlc.arg(last) ORDER BY scope, key;

-- name: ChoicesBetween :many
SELECT * FROM choices WHERE scope >= sqlc.arg(first) AND scope <= sqlc.arg(last) ORDER BY scope, key;

-- name: PoliciesBetween :many
SELECT scope, egress FROM policies WHERE scope >= sqlc.arg(first) AND scope <= sqlc.arg(last) ORDER BY scope;

-- name: DeclaredAt :one
SELECT at FROM declared;

-- name: RaiseDeclared :exec
UPDATE declared SET at = at + 1;
