package server

import (
	"errors"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"enplace"
)

// The parts that requests are made of. Their names are exported for huma's sake, which reads no others.

// EnvironmentID names an environment in a path.
type EnvironmentID struct {
	ID string `path:"id" doc:"The environment's id" example:"henv_01ke8m2v0z7qf9h4c6t1x5n3wb"`
}

// HarnessID names a harness in a path.
type HarnessID struct {
	ID string `path:"id" doc:"The harness's id"`
}

// TaskID names a task in a path.
type TaskID struct {
	ID string `path:"id" doc:"The task's id"`
}

// Number is the number of a build or version in a path.
type Number struct {
	N int `path:"n" minimum:"1" maximum:"2147483647" doc:"Its number; the first is 1"`
}

// FilePath is the path of a file at the end of a path.
type FilePath struct {
	Path string `path:"path" doc:"The file's path; its slashes stand as they are"`
}

func (f FilePath) check() error {
	if err := enplace.CheckPath(f.Path); err != nil {
		return err
	}
	return nil
}

// PageParams ask for a part of a list.
type PageParams struct {
	Limit  int    `query:"limit" minimum:"1" maximum:"500" default:"50" doc:"At most so many items"`
	Cursor string `query:"cursor" maxLength:"4096" doc:"next of the page before"`
}

func (p PageParams) page() enplace.Page { return enplace.Page{Limit: p.Limit, Cursor: p.Cursor} }

// FilePageParams ask for a part of a list of files.
type FilePageParams struct {
	Limit  int    `query:"limit" minimum:"1" maximum:"20000" default:"20000" doc:"At most so many entries"`
	Cursor string `query:"cursor" maxLength:"8192" doc:"next of the page before"`
}

func (p FilePageParams) page() enplace.Page { return enplace.Page{Limit: p.Limit, Cursor: p.Cursor} }

// WaitParam lets a request wait.
type WaitParam struct {
	Wait Wait `query:"wait" doc:"Answer when it has ended or this time is up, such as 30s; at most 5m" example:"30s"`
}

// Wait is a duration as Go writes it, cut to enplace.MaxWait.
type Wait struct{ time.Duration }

// UnmarshalText reads a duration.
func (w *Wait) UnmarshalText(b []byte) error {
	d, err := time.ParseDuration(string(b))
	if err != nil || d < 0 {
		return errors.New("write a duration such as 30s or 2m")
	}
	w.Duration = min(d, enplace.MaxWait)
	return nil
}

// Schema says that it is text.
func (*Wait) Schema(huma.Registry) *huma.Schema { return &huma.Schema{Type: huma.TypeString} }

// JSONBody is a request of a JSON body alone.
type JSONBody[T any] struct{ Body T }

// One is an answer of one thing.
type One[T any] struct{ Body T }

func one[T any](v T, err error) (*One[T], error) {
	if err != nil {
		return nil, err
	}
	return &One[T]{Body: v}, nil
}

// Made is an answer of something new.
type Made[T any] struct {
	Location string `header:"Location" doc:"Where it is"`
	Body     T
}

func made[T any](v T, location string, err error) (*Made[T], error) {
	if err != nil {
		return nil, err
	}
	return &Made[T]{Location: location, Body: v}, nil
}

func list[T any](l enplace.List[T], err error) (*One[enplace.List[T]], error) {
	if l.Items == nil {
		l.Items = []T{} // an array, also when it is empty
	}
	return one(l, err)
}

// none is the answer of nothing.
func none(err error) (*struct{}, error) { return nil, err }
