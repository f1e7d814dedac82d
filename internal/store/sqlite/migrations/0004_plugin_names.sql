-- Plugins are found by name, whatever their scope.

-- +goose Up
CREATE INDEX plugins_name ON plugins (name);

-- +goose Down
DROP INDEX plugins_name;
