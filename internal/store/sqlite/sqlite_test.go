package sqlite_test

import (
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pressly/goose/v3"
	"golang.org/x/sys/unix"

	"enplace"
	"enplace/internal/store"
	"enplace/internal/store/sqlite"
	"enplace/internal/store/storetest"
)

// place is a database file. Its name would be a parameter, were it not escaped.
type place string

func (p place) Open(t *testing.T) store.Store { return open(t, string(p)) }

func open(t testing.TB, path string) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestContract(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) storetest.Place {
		return place(filepath.Join(t.TempDir(), "a b?_pragma=x#%41.db"))
	})
}

func TestModes(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "enplace.db")
	s := open(t, path)
	if err := s.PutSetting(t.Context(), "a", "b"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{path, path + "-wal", path + "-shm"} {
		st, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if st.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", filepath.Base(name), st.Mode())
		}
	}
}

// A server that is killed leaves the file and the log beside it as they are on the disk; what was acknowledged is in them.
func TestKilled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "enplace.db")
	s := open(t, path)
	for i := range 100 {
		if err := s.PutSetting(t.Context(), fmt.Sprint("name ", i), "value"); err != nil {
			t.Fatal(err)
		}
	}
	left := t.TempDir()
	for _, name := range []string{"enplace.db", "enplace.db-wal"} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(left, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	again := open(t, filepath.Join(left, "enplace.db"))
	for i := range 100 {
		if v, err := again.Setting(t.Context(), fmt.Sprint("name ", i)); v != "value" || err != nil {
			t.Errorf("setting %d is %q, %v", i, v, err)
		}
	}
}

func TestNewerSchemaIsRefused(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "enplace.db")
	if err := open(t, path).Close(); err != nil {
		t.Fatal(err)
	}
	d, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if _, err := d.Exec("INSERT INTO goose_db_version (version_id, is_applied) VALUES (9999, TRUE)"); err != nil {
		t.Fatal(err)
	}
	if _, err := sqlite.Open(t.Context(), path); enplace.KindOf(err) != enplace.KindUnavailable {
		t.Errorf("opening a database of a newer program gave %v", err)
	}
	if _, err := sqlite.OpenBeside(t.Context(), path); enplace.KindOf(err) != enplace.KindUnavailable {
		t.Errorf("opening it beside a server gave %v", err)
	}
}

// Beside a server that has the database open another process writes, and makes and migrates nothing.
func TestOpenBeside(t *testing.T) {
	t.Parallel()
	ctx, path := t.Context(), filepath.Join(t.TempDir(), "enplace.db")
	if _, err := sqlite.OpenBeside(ctx, path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("where there is no database: %v", err)
	}
	old, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	p, err := goose.NewProvider(goose.DialectSQLite3, old, os.DirFS("migrations"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.UpTo(ctx, 2); err != nil {
		t.Fatal(err)
	}
	if _, err := sqlite.OpenBeside(ctx, path); enplace.KindOf(err) != enplace.KindUnavailable {
		t.Errorf("a database of an older program: %v", err)
	}
	if v, err := p.GetDBVersion(ctx); v != 2 || err != nil {
		t.Errorf("it was migrated to %d, %v", v, err)
	}
	if err := old.Close(); err != nil {
		t.Fatal(err)
	}
	server := open(t, path)
	beside, err := sqlite.OpenBeside(ctx, path)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i, s := range []*sqlite.Store{server, beside} {
		wg.Go(func() {
			for n := range 50 {
				if err := s.PutSetting(ctx, fmt.Sprint(i, " ", n), "value"); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if err := beside.Close(); err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		for n := range 50 {
			if v, err := server.Setting(ctx, fmt.Sprint(i, " ", n)); v != "value" || err != nil {
				t.Errorf("setting %d %d is %q, %v", i, n, v, err)
			}
		}
	}
}

// A database from before toolchains keeps what is in it, and takes what is new.
func TestMigrationKeepsRecords(t *testing.T) {
	t.Parallel()
	ctx, path := t.Context(), filepath.Join(t.TempDir(), "enplace.db")
	d, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	p, err := goose.NewProvider(goose.DialectSQLite3, d, os.DirFS("migrations"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.UpTo(ctx, 1); err != nil {
		t.Fatal(err)
	}
	for _, statement := range []string{
		`INSERT INTO environments (id, slug, owner, name, active, created_at, updated_at, settings) VALUES ('henv_1', 'a', 'ann', 'A', 1, 1, 2, '{"packages":{"pip":["six"]}}')`,
		`INSERT INTO tree VALUES ('henv_1', 'a.py', 'file', 3, FALSE, '', 'sha256:a')`,
		`INSERT INTO versions VALUES ('henv_1', 1, 1, 'sha256:v', 7, 3, 'sha256:s', '{"base":"sha256:base","images":[{"digest":"sha256:i"}]}')`,
		`INSERT INTO tasks VALUES ('task_1', 'ann', 'har_1', 'henv_1', 'succeeded', 4, 5, FALSE, '{"id":"task_1"}')`,
		`INSERT INTO task_inputs VALUES ('task_1', 'in')`,
		`INSERT INTO keys VALUES ('key_1', 'hash', 'laptop', 'person', 'ann', 'operator', 1, NULL, NULL)`,
		`INSERT INTO settings VALUES ('base', 'sha256:base')`,
	} {
		if _, err := d.Exec(statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}

	s := open(t, path)
	if e, err := s.Environment(ctx, "henv_1"); err != nil || e.Name != "A" || *e.ActiveVersion != 1 || e.Packages.Pip[0] != "six" {
		t.Errorf("the environment is %+v, %v", e, err)
	}
	if e, err := s.TreeEntry(ctx, "henv_1", "a.py"); err != nil || e.Size != 3 {
		t.Errorf("the file is %+v, %v", e, err)
	}
	if r, err := s.Task(ctx, "task_1"); err != nil || r.Input != "in" {
		t.Errorf("the task is %+v, %v", r, err)
	}
	if k, err := s.KeyByHash(ctx, "hash"); err != nil || k.Subject != "ann" {
		t.Errorf("the key is %+v, %v", k, err)
	}
	images := map[enplace.Digest]bool{}
	if err := s.ImageDigests(ctx, func(d enplace.Digest) { images[d] = true }); err != nil || !images["sha256:i"] || !images["sha256:base"] || len(images) != 2 {
		t.Errorf("the images are %v, %v", images, err)
	}
	if err := s.CreatePlugin(ctx, enplace.Plugin{ID: "plug_1", Scope: enplace.Organisation, Name: "tools"}, []enplace.Item{{Definition: enplace.Definition{Key: "jq"}}}); err != nil {
		t.Errorf("the organisation has no scope: %v", err)
	}
	if at, err := s.DeclaredAt(ctx); at != 1 || err != nil {
		t.Errorf("after one change the counter is %d, %v", at, err)
	}
}

func TestMigrationsGoDownAndUp(t *testing.T) {
	t.Parallel()
	d, err := sql.Open("sqlite", filepath.Join(t.TempDir(), "enplace.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	p, err := goose.NewProvider(goose.DialectSQLite3, d, os.DirFS("migrations"))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := p.Up(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := p.DownTo(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
	}
	var left int
	if err := d.QueryRow("SELECT COUNT(*) FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%' AND name NOT LIKE 'goose%'").Scan(&left); err != nil || left != 0 {
		t.Errorf("%d tables are left, %v", left, err)
	}
}

// A full disk is told as such, loses nothing, and ends when there is room again.
func TestFullDisk(t *testing.T) {
	if os.Getuid() != 0 {
		if os.Getenv("CI") != "" {
			t.Fatal("mounting a small file system needs root")
		}
		t.Skip("mounting a small file system needs root")
	}
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=4m"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("no tmpfs can be mounted here: %v", err)
		}
		if os.Getenv("CI") != "" {
			t.Fatalf("no tmpfs can be mounted here: %v", err)
		}
		t.Skipf("no tmpfs can be mounted here: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	s := open(t, filepath.Join(dir, "enplace.db"))
	if err := s.PutSetting(t.Context(), "small", "kept"); err != nil {
		t.Fatal(err)
	}
	if err := s.PutSetting(t.Context(), "large", strings.Repeat("x", 16<<20)); enplace.KindOf(err) != enplace.KindUnavailable {
		t.Errorf("a full disk gave %v", err)
	}
	if err := s.PutSetting(t.Context(), "after", "kept"); err != nil {
		t.Errorf("a small record after it: %v", err)
	}
	if v, err := s.Setting(t.Context(), "small"); v != "kept" || err != nil {
		t.Errorf("the record from before is %q, %v", v, err)
	}
}

// BenchmarkImport replaces a tree by 20,000 entries.
func BenchmarkImport(b *testing.B) {
	s := open(b, filepath.Join(b.TempDir(), "enplace.db"))
	ctx, now := b.Context(), time.Now()
	if err := s.CreateEnvironment(ctx, enplace.Environment{ID: "henv_01m8p1000000000000000000000", Slug: "a", CreatedAt: now, UpdatedAt: now}); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		err := s.EditTree(ctx, "henv_01m8p1000000000000000000000", now, func(t store.Tree) error {
			if _, err := t.Clear(); err != nil {
				return err
			}
			for i := range 20_000 {
				path := fmt.Sprintf("src/package%03d/module%05d.py", i%100, i)
				if err := t.Put(enplace.TreeEntry{Path: path, Type: enplace.EntryFile, Size: 10, Digest: enplace.DigestOf([]byte(path))}); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkCommand is what each command in a conversation reads before it runs, with 30 items in its chain.
func BenchmarkCommand(b *testing.B) {
	s := open(b, filepath.Join(b.TempDir(), "enplace.db"))
	ctx, chain := b.Context(), enplace.NewChain("web", "ann")
	set := store.SetRecord{Set: enplace.Set{Hash: "set", Chain: chain}}
	computer := store.ComputerRecord{Computer: enplace.Computer{ID: "person:ann", Sets: []enplace.ComputerSet{{Hash: "set"}}}}
	_, err := s.PutTeam(ctx, enplace.Team{Name: "web", People: []string{"ann"}})
	for i := range 30 {
		d := enplace.Definition{Key: fmt.Sprint("item-", i), Files: []enplace.ItemFile{{Path: "setup.sh", Content: strings.Repeat("true\n", 800)}}}
		err = errors.Join(err, s.CreatePlugin(ctx, enplace.Plugin{ID: d.Key, Scope: chain[i%3], Name: d.Key}, []enplace.Item{{Definition: d, Enabled: true}}))
		set.Items = append(set.Items, enplace.SetItem{Definition: d, Scope: chain[i%3]})
		computer.Sets[0].Items = append(computer.Sets[0].Items, enplace.ComputerItem{InstalledItem: enplace.InstalledItem{Key: d.Key, Tools: make([]enplace.ToolStatus, 2)}})
	}
	_, err2 := s.PutConversation(ctx, enplace.Conversation{ID: "c", Kind: enplace.ConversationDirect, Person: "ann"})
	_, err3 := s.PutSet(ctx, set)
	if err := errors.Join(err, err2, err3, s.CreateComputer(ctx, computer)); err != nil {
		b.Fatal(err)
	}
	for name, read := range map[string]func() error{
		"Conversation": func() error { _, err := s.Conversation(ctx, "c"); return err },
		"Computer":     func() error { _, err := s.Computer(ctx, "person:ann"); return err },
		"Set":          func() error { _, err := s.Set(ctx, "set"); return err },
		"Declared":     func() error { _, err := s.Declared(ctx, chain); return err },
		"DeclaredAt":   func() error { _, err := s.DeclaredAt(ctx); return err },
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if err := read(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkUpdateTask is what each start and end of a task waits for.
func BenchmarkUpdateTask(b *testing.B) {
	s := open(b, filepath.Join(b.TempDir(), "enplace.db"))
	m := enplace.Manifest{}
	for i := range 200 {
		m.Packages = append(m.Packages, enplace.ResolvedPackage{Manager: enplace.Pip, Name: fmt.Sprint("package-", i), Version: "1.2.3", Hash: strings.Repeat("a", 71)})
	}
	_, err := s.CreateTask(b.Context(), "", func(enplace.Version, error) (store.TaskRecord, error) {
		return store.TaskRecord{Task: enplace.Task{ID: "task_1", CreatedAt: time.Now()}, Manifest: &m}, nil
	})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := s.UpdateTask(b.Context(), "task_1", func(r *store.TaskRecord) error { r.StartMS++; return nil }); err != nil {
			b.Fatal(err)
		}
	}
}
