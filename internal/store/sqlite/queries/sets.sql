-- name: PutSet :one
INSERT INTO sets (hash, created_at, used_at, next_refresh, image, bundle, resolved, contents) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
ON CONFLICT (hash) DO UPDATE SET used_at = excluded.used_at
RETURNING *;

-- name: GetSet :one
SELECT * FROM sets WHERE hash = $1;

-- name: UpdateSet :exec
UPDATE sets SET used_at = $2, next_refresh = $3, image = $4, bundle = $5 WHERE hash = $1;

-- name: ListSets :many
SELECT * FROM sets
WHERE (used_at, hash) < (sqlc.arg(at), CAST(sqlc.arg(hash) AS TEXT))
ORDER BY used_at DESC, hash DESC LIMIT sqlc.arg(count);

-- name: DeleteSets :execrows
DELETE FROM sets
WHERE used_at < sqlc.arg(before) AND NOT EXISTS (SELECT 1 FROM computer_sets WHERE computer_sets.hash = sets.hash);

-- name: SetImages :many
SELECT DISTINCT image FROM sets WHERE image <> '';
