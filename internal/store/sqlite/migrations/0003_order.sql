-- Lists and queues follow the order in which things came, and not their dates: a clock may go back. Ids say that order.

-- +goose Up
DROP INDEX environments_newest;
DROP INDEX environments_owner;
DROP INDEX harnesses_newest;
DROP INDEX tasks_newest;
DROP INDEX tasks_queued;
DROP INDEX keys_newest;
DROP INDEX audit_newest;
DROP INDEX audit_target;
DROP INDEX plugins_newest;
CREATE INDEX environments_owner ON environments (owner, id);
CREATE INDEX tasks_queued ON tasks (id) WHERE status = 'queued';
CREATE INDEX audit_target ON audit (target, id);

ALTER TABLE builds ADD COLUMN place BIGINT NOT NULL DEFAULT 0; -- in the queue
DROP INDEX builds_queue;
CREATE INDEX builds_queue ON builds (place, environment) WHERE status IN ('queued', 'running');

-- +goose Down
DROP INDEX builds_queue;
ALTER TABLE builds DROP COLUMN place;
CREATE INDEX builds_queue ON builds (created_at, environment) WHERE status IN ('queued', 'running');
DROP INDEX audit_target;
DROP INDEX tasks_queued;
DROP INDEX environments_owner;
CREATE INDEX environments_newest ON environments (created_at, id);
CREATE INDEX environments_owner ON environments (owner, created_at, id);
CREATE INDEX harnesses_newest ON harnesses (created_at, id);
CREATE INDEX tasks_newest ON tasks (created_at, id);
CREATE INDEX tasks_queued ON tasks (created_at, id) WHERE status = 'queued';
CREATE INDEX keys_newest ON keys (created_at, id);
CREATE INDEX audit_newest ON audit (at, id);
CREATE INDEX audit_target ON audit (target, at, id);
CREATE INDEX plugins_newest ON plugins (created_at, id);
