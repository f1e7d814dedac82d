-- name: PutSecret :one
INSERT INTO secrets (scope, name, created_by, created_at, updated_at, sealed) VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (scope, name) DO UPDATE SET updated_at = excluded.updated_at, sealed = excluded.sealed
RETURNING *;

-- name: SecretsBetween :many
SELECT * FROM secrets WHERE scope >= sqlc.arg(first) AND scope <= sqlc.arg(last) ORDER BY scope, name;

-- name: DeleteSecret :execrows
DELETE FROM secrets WHERE scope = $1 AND name = $2;
