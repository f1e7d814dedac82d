-- name: InsertHarness :exec
INSERT INTO harnesses (id, owner, created_at, harness) VALUES ($1, $2, $3, $4);

-- name: GetHarness :one
SELECT harness FROM harnesses WHERE id = $1;

-- name: ListHarnesses :many
SELECT harness FROM harnesses
WHERE (CAST(sqlc.arg(owner) AS TEXT) = '' OR owner = sqlc.arg(owner)) AND id < sqlc.arg(before)
ORDER BY id DESC LIMIT sqlc.arg(count);

-- name: DeleteHarness :execrows
DELETE FROM harnesses WHERE id = $1;
