-- A folder "a" holds the paths from "a/" up to, and without, "a0": 0 is the byte after /.

-- name: GetEntry :one
SELECT * FROM tree WHERE environment = $1 AND path = $2;

-- name: ListTree :many
SELECT * FROM tree
WHERE environment = sqlc.arg(environment) AND path > sqlc.arg(after)
ORDER BY path LIMIT sqlc.arg(count);

-- The outer bounds make it a range of the index; a sibling such as "a-b" lies between "a" and "a/".
-- name: ListTreeAt :many
SELECT * FROM tree
WHERE environment = sqlc.arg(environment) AND path > sqlc.arg(after)
  AND path >= sqlc.arg(prefix) AND path < sqlc.arg(below_end)
  AND (path = sqlc.arg(prefix) OR path >= sqlc.arg(below))
ORDER BY path LIMIT sqlc.arg(count);

-- name: HasBelow :one
SELECT EXISTS (SELECT 1 FROM tree WHERE environment = sqlc.arg(environment) AND path >= sqlc.arg(below) AND path < sqlc.arg(below_end));

-- name: InsertEntry :exec
INSERT INTO tree (environment, path, type, size, executable, target, digest)
VALUES ($1, $2, $3, $4, $5, $6, $7);

-- name: DeleteEntry :many
DELETE FROM tree WHERE environment = $1 AND path = $2 RETURNING size;

-- name: DeleteBelow :many
DELETE FROM tree WHERE environment = sqlc.arg(environment) AND path >= sqlc.arg(below) AND path < sqlc.arg(below_end) RETURNING size;

-- name: ClearTree :execrows
DELETE FROM tree WHERE environment = $1;

-- name: TreeDigests :many
SELECT DISTINCT digest FROM tree WHERE digest <> '';
