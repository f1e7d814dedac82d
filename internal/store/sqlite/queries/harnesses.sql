-- name: InsertHarness :exec
INSERT INTO harnesses (id, owner, created_at, harness) VALUES ($1, $2, $3, $4);

-- name: GetHarness :one
SELECT harness FROM harnesses WHERE id = $1;

-- name: ListHarnesses :many
SELECT harness FROM harnesses
WHERE (CAST(sqlc.arg(owner) AS TEXT) = '' OR owner = sqlc.arg(owner)) AND (created_at, id) < (sqlc.arg(at), CAST(sqlc.arg(id) AS TEXT))
ORDER BY created_at DESC, id DESC LIMIT sqlc.arg(count);

-- name: DeleteHarness :execrows
DELETE FROM harnesses WHERE id = $1;
