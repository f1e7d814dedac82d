package transcript

import "testing"

func TestPlain(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"": "", "a": "a\n", "a\n\nb": "a\n\nb\n",
		"a\rb\r\x1b[31mred\x1b]0;title\x07\xff\n": "red\ufffd\n",
	} {
		if got := Plain([]byte(in)); got != want {
			t.Errorf("%q gave %q, want %q", in, got, want)
		}
	}
}
