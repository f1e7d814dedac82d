-- name: InsertEnvironment :exec
INSERT INTO environments (id, slug, owner, name, created_at, updated_at, settings)
VALUES ($1, $2, $3, $4, $5, $6, $7);

-- name: GetEnvironment :one
SELECT * FROM environments WHERE id = $1;

-- name: ListEnvironments :many
SELECT * FROM environments
WHERE id < sqlc.arg(before)
ORDER BY id DESC LIMIT sqlc.arg(count);

-- name: ListEnvironmentsOf :many
SELECT * FROM environments
WHERE owner = sqlc.arg(owner) AND id < sqlc.arg(before)
ORDER BY id DESC LIMIT sqlc.arg(count);

-- name: UpdateEnvironment :exec
UPDATE environments SET name = $2, settings = $3, updated_at = $4 WHERE id = $1;

-- name: SetTotals :exec
UPDATE environments SET files = $2, bytes = $3, tree_info = $4, updated_at = $5 WHERE id = $1;

-- name: SetActive :exec
UPDATE environments SET active = $2, updated_at = $3 WHERE id = $1;

-- name: SwapActive :execrows
UPDATE environments SET active = sqlc.arg(active), updated_at = sqlc.arg(updated_at)
WHERE id = sqlc.arg(id) AND active IS NOT DISTINCT FROM CAST(sqlc.narg(expected) AS BIGINT);

-- name: NextBuild :one
UPDATE environments SET builds = builds + 1 WHERE id = $1 RETURNING builds;

-- name: NextVersion :one
UPDATE environments SET versions = versions + 1 WHERE id = $1 RETURNING versions;

-- name: DeleteEnvironment :execrows
DELETE FROM environments WHERE id = $1;
