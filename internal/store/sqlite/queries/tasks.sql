-- name: InsertTask :exec
INSERT INTO tasks (id, owner, harness, environment, status, created_at, ended_at, purged, record)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9);

-- name: InsertInput :exec
INSERT INTO task_inputs (task, input) VALUES ($1, $2);

-- name: GetTask :one
SELECT record FROM tasks WHERE id = $1;

-- name: GetInput :one
SELECT input FROM task_inputs WHERE task = $1;

-- name: UpdateTask :exec
UPDATE tasks SET owner = $2, harness = $3, environment = $4, status = $5, ended_at = $6, purged = $7, record = $8 WHERE id = $1;

-- name: ListTasks :many
SELECT record FROM tasks
WHERE id < sqlc.arg(before)
  AND (CAST(sqlc.arg(owner) AS TEXT) = '' OR owner = sqlc.arg(owner))
  AND (CAST(sqlc.arg(harness) AS TEXT) = '' OR harness = sqlc.arg(harness))
  AND (CAST(sqlc.arg(environment) AS TEXT) = '' OR environment = sqlc.arg(environment))
  AND (CAST(sqlc.arg(status) AS TEXT) = '' OR status = sqlc.arg(status))
  AND (CAST(sqlc.narg(ended_before) AS BIGINT) IS NULL OR ended_at < sqlc.narg(ended_before))
  AND (NOT CAST(sqlc.arg(not_purged) AS BOOLEAN) OR NOT purged)
ORDER BY id DESC LIMIT sqlc.arg(count);

-- name: ListQueuedTasks :many
SELECT record FROM tasks
WHERE status = 'queued' AND id > sqlc.arg(after)
  AND (CAST(sqlc.arg(owner) AS TEXT) = '' OR owner = sqlc.arg(owner))
  AND (CAST(sqlc.arg(harness) AS TEXT) = '' OR harness = sqlc.arg(harness))
  AND (CAST(sqlc.arg(environment) AS TEXT) = '' OR environment = sqlc.arg(environment))
ORDER BY id LIMIT sqlc.arg(count);

-- name: UnfinishedTasks :many
SELECT record FROM tasks WHERE status IN ('queued', 'running');
