-- name: InsertAudit :exec
INSERT INTO audit (id, at, actor, key_id, action, target, detail) VALUES ($1, $2, $3, $4, $5, $6, $7);

-- name: ListAudit :many
SELECT * FROM audit
WHERE id < sqlc.arg(before)
ORDER BY id DESC LIMIT sqlc.arg(count);

-- name: ListAuditOf :many
SELECT * FROM audit
WHERE target = sqlc.arg(target) AND id < sqlc.arg(before)
ORDER BY id DESC LIMIT sqlc.arg(count);
