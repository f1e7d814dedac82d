-- name: InsertKey :exec
INSERT INTO keys (id, hash, name, kind, subject, created_by, created_at, revoked_at, last_used_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9);

-- name: GetKeyByHash :one
SELECT * FROM keys WHERE hash = $1;

-- name: ListKeys :many
SELECT * FROM keys
WHERE id < sqlc.arg(before)
ORDER BY id DESC LIMIT sqlc.arg(count);

-- name: RevokeKey :one
UPDATE keys SET revoked_at = COALESCE(revoked_at, sqlc.arg(now)) WHERE id = sqlc.arg(id) RETURNING *;

-- name: TouchKey :execrows
UPDATE keys SET last_used_at = sqlc.arg(now) WHERE id = sqlc.arg(id);
