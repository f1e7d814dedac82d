-- It queues behind those that wait, also where a clock went back meanwhile.
-- name: InsertBuild :exec
INSERT INTO builds (environment, n, status, created_by, created_at, snapshot, progress, spec, place)
VALUES ($1, $2, 'queued', $3, $4, $5, $6, $7, (SELECT COALESCE(MAX(b.place), 0) + 1 FROM builds b WHERE b.status IN ('queued', 'running')));

-- name: GetBuild :one
SELECT * FROM builds WHERE environment = $1 AND n = $2;

-- name: UnfinishedBuild :one
SELECT * FROM builds WHERE environment = $1 AND status IN ('queued', 'running');

-- name: RunningBuilds :many
SELECT * FROM builds WHERE status IN ('queued', 'running') AND status = 'running' ORDER BY created_at, environment;

-- name: ListBuilds :many
SELECT * FROM builds
WHERE environment = sqlc.arg(environment) AND n < sqlc.arg(before)
ORDER BY n DESC LIMIT sqlc.arg(count);

-- The guard is repeated outside so that where two workers choose the same row, the second one finds it taken.
-- name: ClaimBuild :one
UPDATE builds
SET status = 'running', worker = sqlc.arg(worker), lease_until = sqlc.arg(until), started_at = COALESCE(started_at, sqlc.arg(now))
WHERE (environment, n) = (
    SELECT environment, n FROM builds
    WHERE status IN ('queued', 'running') AND (status = 'queued' OR lease_until <= sqlc.arg(now))
    ORDER BY place, environment LIMIT 1)
  AND status IN ('queued', 'running') AND (status = 'queued' OR lease_until <= sqlc.arg(now))
RETURNING *;

-- name: RenewBuild :one
UPDATE builds SET lease_until = sqlc.arg(until)
WHERE environment = sqlc.arg(environment) AND n = sqlc.arg(n) AND worker = sqlc.arg(worker) AND status = 'running'
RETURNING cancel;

-- name: SetProgress :exec
UPDATE builds SET progress = $3 WHERE environment = $1 AND n = $2;

-- name: RequestCancel :exec
UPDATE builds SET cancel = TRUE WHERE environment = $1 AND n = $2;

-- name: EndBuild :exec
UPDATE builds SET status = $3, ended_at = $4, progress = $5 WHERE environment = $1 AND n = $2;

-- name: Snapshots :many
SELECT snapshot FROM builds WHERE status IN ('queued', 'running') UNION SELECT snapshot FROM versions;
