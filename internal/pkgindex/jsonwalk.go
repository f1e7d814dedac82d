package pkgindex

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// eachField calls f for each field of the object that comes next, which f must read.
func eachField(d *json.Decoder, f func(d *json.Decoder, key string) error) error {
	if err := delim(d, '{'); err != nil {
		return err
	}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return err
		}
		key, ok := t.(string)
		if !ok {
			return fmt.Errorf("a field without a name")
		}
		if err := f(d, key); err != nil {
			return err
		}
	}
	return delim(d, '}')
}

// eachElement calls f for each element of the array that comes next, which f must read.
func eachElement(d *json.Decoder, f func() error) error {
	if err := delim(d, '['); err != nil {
		return err
	}
	for d.More() {
		if err := f(); err != nil {
			return err
		}
	}
	return delim(d, ']')
}

func delim(d *json.Decoder, want json.Delim) error {
	t, err := d.Token()
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	if err == nil && t != want {
		err = fmt.Errorf("%v where %v was expected", t, want)
	}
	return err
}
