package enplacetest_test

import (
	"context"
	"os"
	"testing"
	"time"

	"enplace"
	"enplace/enplacetest"
)

func TestKilledServerKeepsWhatItAcknowledged(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	srv := enplacetest.Start(t)
	e, err := srv.Client.CreateEnvironment(ctx, enplace.CreateEnvironment{Name: "Content Studio"})
	if err != nil {
		t.Fatal(err)
	}
	h, err := srv.Client.CreateHarness(ctx, enplace.CreateHarness{Name: "open"})
	if err != nil {
		t.Fatal(err)
	}
	task, err := srv.Client.CreateTask(ctx, enplace.CreateTask{Metadata: enplace.CreateTaskMetadata{Harness: h.ID}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := srv.Client.Exec(ctx, task.ID, enplace.ExecRequest{Command: []string{"sh", "-c", "echo kept > note"}}); err != nil {
		t.Fatal(err)
	}
	address := srv.URL
	srv.Kill()
	srv.Restart()
	if srv.URL != address {
		t.Errorf("it was at %s and is at %s", address, srv.URL)
	}
	if got, err := srv.Client.Environment(ctx, e.ID); err != nil || got.Slug != "content-studio" {
		t.Errorf("%+v %v", got, err)
	}
	if task, err = srv.Client.WaitTask(ctx, task.ID); err != nil || task.Status != enplace.TaskFailed || task.Error.Reason != enplace.ReasonInterrupted {
		t.Errorf("%+v %v", task, err)
	}
	files, err := srv.Client.ListTaskFiles(ctx, task.ID, enplace.Page{})
	if err != nil || len(files.Items) != 1 || files.Items[0].Path != "note" {
		t.Errorf("%+v %v", files, err)
	}
}

func TestTwoServersAtOnce(t *testing.T) {
	t.Parallel()
	one, two := enplacetest.Start(t), enplacetest.Start(t)
	if one.URL == two.URL || one.Data == two.Data {
		t.Errorf("both are at %s in %s", one.URL, one.Data)
	}
	one.Stop()
	if err := two.Client.Ready(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(one.Data); err != nil {
		t.Errorf("its data went before the test's end: %v", err)
	}
}
