-- name: GetStep :one
UPDATE steps SET used_at = sqlc.arg(now) WHERE key = sqlc.arg(key) RETURNING *;

-- name: PutStep :exec
INSERT INTO steps (key, image, bytes, used_at, data) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (key) DO UPDATE SET image = excluded.image, bytes = excluded.bytes, used_at = excluded.used_at, data = excluded.data;

-- name: PruneSteps :execrows
DELETE FROM steps WHERE used_at < $1;

-- name: StepImages :many
SELECT DISTINCT image FROM steps WHERE image <> '';
