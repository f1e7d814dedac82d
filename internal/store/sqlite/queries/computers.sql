-- name: InsertComputer :exec
INSERT INTO computers (id, person, room, created_at, root, record) VALUES ($1, $2, $3, $4, $5, $6);

-- name: GetComputer :one
SELECT root, record FROM computers WHERE id = $1;

-- name: ListComputers :many
SELECT root, record FROM computers WHERE id > sqlc.arg(after) ORDER BY id LIMIT sqlc.arg(count);

-- name: UpdateComputer :exec
UPDATE computers SET root = $2, record = $3 WHERE id = $1;

-- name: DeleteComputer :execrows
DELETE FROM computers WHERE id = $1;

-- name: InsertComputerSet :exec
INSERT INTO computer_sets (computer, hash) VALUES ($1, $2) ON CONFLICT (computer, hash) DO NOTHING;

-- name: ClearComputerSets :exec
DELETE FROM computer_sets WHERE computer = $1;

-- name: NextComputerError :one
UPDATE computers SET errors = errors + 1 WHERE id = $1 RETURNING errors;

-- name: InsertComputerError :exec
INSERT INTO computer_errors (computer, n, entry) VALUES ($1, $2, $3);

-- name: DropComputerErrors :exec
DELETE FROM computer_errors WHERE computer = $1 AND (n <= sqlc.arg(last) OR n = sqlc.arg(joined));

-- name: ListComputerErrors :many
SELECT n, entry FROM computer_errors
WHERE computer = sqlc.arg(computer) AND n < sqlc.arg(before)
ORDER BY n DESC LIMIT sqlc.arg(count);

-- name: Roots :many
SELECT root FROM computers;
