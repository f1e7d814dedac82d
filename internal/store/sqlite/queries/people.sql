-- name: PutTeam :one
INSERT INTO teams (name, created_at, updated_at) VALUES ($1, $2, $3)
ON CONFLICT (name) DO UPDATE SET updated_at = excluded.updated_at
RETURNING *;

-- name: GetTeam :one
SELECT * FROM teams WHERE name = $1;

-- name: ListTeams :many
SELECT * FROM teams WHERE name > sqlc.arg(after) ORDER BY name LIMIT sqlc.arg(count);

-- name: DeleteTeam :execrows
DELETE FROM teams WHERE name = $1;

-- name: InsertScope :exec
INSERT INTO scopes (scope) VALUES ($1) ON CONFLICT (scope) DO NOTHING;

-- name: DeleteScope :execrows
DELETE FROM scopes WHERE scope = $1;

-- name: PeopleOf :many
SELECT login FROM members WHERE team = $1 ORDER BY login;

-- name: InsertMember :exec
INSERT INTO members (team, login) VALUES ($1, $2) ON CONFLICT (team, login) DO NOTHING;

-- name: ClearTeam :exec
DELETE FROM members WHERE team = $1;

-- name: InsertPerson :exec
INSERT INTO people (login, created_at) VALUES ($1, $2) ON CONFLICT (login) DO NOTHING;

-- name: GetPerson :one
SELECT * FROM people WHERE login = $1;

-- name: TeamsOf :many
SELECT team FROM members WHERE login = $1 ORDER BY team;

-- name: ListPeople :many
SELECT * FROM people WHERE login > sqlc.arg(after) ORDER BY login LIMIT sqlc.arg(count);

-- name: DeletePerson :execrows
DELETE FROM people WHERE login = $1;

-- name: PutRoom :one
INSERT INTO rooms (name, team, internal, created_at, updated_at) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (name) DO UPDATE SET team = excluded.team, internal = excluded.internal, updated_at = excluded.updated_at
RETURNING *;

-- name: GetRoom :one
SELECT * FROM rooms WHERE name = $1;

-- name: ListRooms :many
SELECT * FROM rooms WHERE name > sqlc.arg(after) ORDER BY name LIMIT sqlc.arg(count);

-- name: DeleteRoom :execrows
DELETE FROM rooms WHERE name = $1;

-- name: PutConversation :one
INSERT INTO conversations (id, kind, person, team, room, created_at, updated_at) VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT (id) DO UPDATE SET kind = excluded.kind, person = excluded.person, team = excluded.team, room = excluded.room, updated_at = excluded.updated_at
RETURNING *;

-- name: GetConversation :one
SELECT * FROM conversations WHERE id = $1;

-- name: ListConversations :many
SELECT * FROM conversations WHERE id > sqlc.arg(after) ORDER BY id LIMIT sqlc.arg(count);

-- name: ConversationsOn :many
SELECT * FROM conversations WHERE person = sqlc.narg(person) OR room = sqlc.narg(room) ORDER BY id;

-- name: DeleteConversation :execrows
DELETE FROM conversations WHERE id = $1;
