-- name: ClaimRequest :execrows
INSERT INTO requests (caller, key, request_hash, claimed_at) VALUES ($1, $2, $3, $4)
ON CONFLICT (caller, key) DO NOTHING;

-- name: GetRequest :one
SELECT * FROM requests WHERE caller = $1 AND key = $2;

-- name: AnswerRequest :execrows
UPDATE requests SET response = $3 WHERE caller = $1 AND key = $2;

-- name: FreeRequest :exec
DELETE FROM requests WHERE caller = $1 AND key = $2;

-- name: ForgetRequests :exec
DELETE FROM requests WHERE claimed_at < $1;

-- name: ForgetRunning :exec
DELETE FROM requests WHERE response IS NULL;
