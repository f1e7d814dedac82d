-- name: InsertVersion :exec
INSERT INTO versions (environment, n, build, digest, bytes, created_at, snapshot, manifest)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8);

-- name: GetVersion :one
SELECT sqlc.embed(versions), environments.active FROM versions
JOIN environments ON environments.id = versions.environment
WHERE versions.environment = $1 AND versions.n = $2;

-- name: ActiveVersion :one
SELECT versions.* FROM versions
JOIN environments ON environments.id = versions.environment AND environments.active = versions.n
WHERE versions.environment = $1;

-- name: ListVersions :many
SELECT n, build, digest, bytes, created_at FROM versions
WHERE environment = sqlc.arg(environment) AND n < sqlc.arg(before)
ORDER BY n DESC LIMIT sqlc.arg(count);

-- name: DeleteVersion :execrows
DELETE FROM versions WHERE environment = $1 AND n = $2;

-- name: Manifests :many
SELECT manifest FROM versions;
