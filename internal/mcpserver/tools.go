package mcpserver

import (
	"context"
	"encoding/base64"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"enplace"
)

// Bounds of what goes through a tool. Output is for a model to read: of more than this its start and end are kept.
const (
	maxOutput = 64 << 10  // bytes of stdout and stderr each
	maxRead   = 256 << 10 // of a file, at once
	maxWrite  = 4 << 20
	maxListed = 1000
	maxDepth  = 8
)

// RunInput is a command line.
type RunInput struct {
	Command string            `json:"command" jsonschema:"the command line, run by bash"`
	Cwd     string            `json:"cwd,omitempty" jsonschema:"where it starts: an absolute path"`
	Env     map[string]string `json:"env,omitempty" jsonschema:"variables beside those that are there"`
	Stdin   string            `json:"stdin,omitempty" jsonschema:"its standard input; empty without it"`
	Timeout int               `json:"timeout,omitempty" jsonschema:"seconds after which it is killed with everything it started; 600 unless set"`
}

// RunOutput is how a command ended.
type RunOutput struct {
	ExitCode int    `json:"exit_code"`
	Stdout   string `json:"stdout"`
	Stderr   string `json:"stderr"`
	TimedOut bool   `json:"timed_out,omitempty"`
	Told
}

// Told is in the answer of every tool that runs something inside: a notice is given once, to whichever comes first.
type Told struct {
	Notices []string `json:"notices,omitempty" jsonschema:"what to know beside the answer, such as tools that could not be installed"`
}

// ReadInput names a part of a file.
type ReadInput struct {
	Path   string `json:"path" jsonschema:"absolute path"`
	Offset int64  `json:"offset,omitempty" jsonschema:"the first byte; 0 unless set"`
	Limit  int64  `json:"limit,omitempty" jsonschema:"bytes at most; 262144 unless set, and at most that"`
}

// ReadOutput is a part of a file.
type ReadOutput struct {
	Content    string `json:"content"`
	Encoding   string `json:"encoding" jsonschema:"utf-8, or base64 for what is no text"`
	Size       int64  `json:"size" jsonschema:"of the whole file"`
	NextOffset int64  `json:"next_offset,omitempty" jsonschema:"where to read on; absent at the end"`
	Told
}

// WriteInput is a file to write.
type WriteInput struct {
	Path       string `json:"path" jsonschema:"absolute path; folders are made"`
	Content    string `json:"content"`
	Encoding   string `json:"encoding,omitempty" jsonschema:"utf-8 unless set; base64 for what is no text"`
	Executable bool   `json:"executable,omitempty"`
}

// WriteOutput says what was written.
type WriteOutput struct {
	Path  string `json:"path"`
	Bytes int    `json:"bytes"`
	Told
}

// ListInput names a folder.
type ListInput struct {
	Path  string `json:"path" jsonschema:"absolute path of a folder"`
	Depth int    `json:"depth,omitempty" jsonschema:"levels below it; 1 unless set, at most 8"`
}

// ListOutput is what a folder holds.
type ListOutput struct {
	Entries []Entry `json:"entries"`
	More    bool    `json:"more,omitempty" jsonschema:"there are more than are listed"`
	Told
}

// Entry is one file, folder or link.
type Entry struct {
	Path string `json:"path" jsonschema:"below the folder that was listed"`
	Type string `json:"type" jsonschema:"file, directory, link or other"`
	Size int64  `json:"size"`
}

// Toolchain is how the tools of the conversation stand.
type Toolchain struct {
	Items  []ToolchainItem `json:"items"`
	Failed int             `json:"failed" jsonschema:"items that could not be installed"`

	RetryAt *time.Time `json:"retry_at,omitempty" jsonschema:"when what failed is tried again by itself; one that is past is tried now, or with the next command"`
}

// ToolchainItem is one item of the set.
type ToolchainItem struct {
	Key       string   `json:"key"`
	Scope     string   `json:"scope"`
	Status    string   `json:"status"`
	Tools     []string `json:"tools"`
	Error     string   `json:"error,omitempty"`
	ErrorTail string   `json:"error_tail,omitempty"`
}

// tools are the tools of one place.
type tools struct{ at place }

func (t tools) add(s *mcp.Server) {
	yes, no := true, false
	reads := &mcp.ToolAnnotations{ReadOnlyHint: true, OpenWorldHint: &no}
	known := toolFields{}
	s.AddReceivingMiddleware(known.check)
	addTool(s, known, &mcp.Tool{
		Name: "run_command", Description: "Run a command line in " + t.at.name() + " and wait for its end.",
		Annotations: &mcp.ToolAnnotations{DestructiveHint: &yes, OpenWorldHint: &yes},
	}, t.run)
	addTool(s, known, &mcp.Tool{Name: "read_file", Description: "Read a file, or a part of a large one.", Annotations: reads}, t.read)
	addTool(s, known, &mcp.Tool{
		Name: "write_file", Description: "Write a file whole, in one step: readers see the old content or the new.",
		Annotations: &mcp.ToolAnnotations{DestructiveHint: &yes, IdempotentHint: true, OpenWorldHint: &no},
	}, t.write)
	addTool(s, known, &mcp.Tool{Name: "list_files", Description: "List what a folder holds.", Annotations: reads}, t.list)
	addTool(s, known, &mcp.Tool{
		Name: "toolchain", Annotations: reads,
		Description: "Show which tools are installed, and which could not be and why.",
	}, func(ctx context.Context, _ struct{}) (Toolchain, error) { return t.at.toolchain(ctx) })
	addTool(s, known, &mcp.Tool{Name: "instructions", Description: "Say what is where, where to write, and which tools are there.", Annotations: reads},
		func(ctx context.Context, _ struct{}) (map[string]string, error) {
			text, err := t.at.instructions(ctx)
			return map[string]string{"instructions": text}, err
		})
}

// handle has the errors of a tool read as an agent should read them.
func handle[In, Out any](do func(context.Context, In) (Out, error)) mcp.ToolHandlerFor[In, Out] {
	return func(ctx context.Context, _ *mcp.CallToolRequest, in In) (*mcp.CallToolResult, Out, error) {
		out, err := do(ctx, in)
		if err != nil {
			err = fmt.Errorf("%s", told(err))
		}
		return nil, out, err
	}
}

func (t tools) run(ctx context.Context, in RunInput) (RunOutput, error) {
	if strings.TrimSpace(in.Command) == "" {
		return RunOutput{}, enplace.Invalidf("is empty").WithField("command")
	}
	r, notices, err := t.at.run(ctx, enplace.ExecRequest{
		Command: []string{"bash", "-c", in.Command}, Cwd: in.Cwd, Env: in.Env, Stdin: in.Stdin, Timeout: in.Timeout,
	})
	if err != nil {
		return RunOutput{}, err
	}
	return RunOutput{ExitCode: r.ExitCode, Stdout: shorten(r.Stdout, r.StdoutBytes), Stderr: shorten(r.Stderr, r.StderrBytes), TimedOut: r.TimedOut, Told: tell(notices)}, nil
}

// tell gives notices as an agent reads them.
func tell(notices []enplace.Notice) (t Told) {
	for _, n := range notices {
		text := n.Message
		for _, i := range n.Items {
			if i.ErrorTail != "" {
				text += fmt.Sprintf("\n%s (%s):\n%s", i.Key, i.Scope, i.ErrorTail)
			}
		}
		t.Notices = append(t.Notices, text)
	}
	return t
}

// shorten keeps the start and the end of long output, and says how much it left out. Of output that the API has shortened already,
// around its middle, whole is the length of all.
func shorten(s string, whole int64) string {
	if len(s) <= maxOutput {
		return s
	}
	head, tail := maxOutput/2, len(s)-maxOutput/2
	for !utf8.RuneStart(s[head]) {
		head--
	}
	for !utf8.RuneStart(s[tail]) {
		tail++
	}
	return fmt.Sprintf("%s\n[%d bytes left out here; write long output to a file and read that]\n%s", s[:head], max(whole, int64(len(s)))-int64(head+len(s)-tail), s[tail:])
}

// script runs one of the small programs below inside. Its arguments are data and never part of the program.
func (t tools) script(ctx context.Context, program, stdin string, args ...string) (string, Told, error) {
	r, notices, err := t.at.run(ctx, enplace.ExecRequest{Command: append([]string{"bash", "-c", program, "enplace"}, args...), Stdin: stdin})
	if err != nil {
		return "", Told{}, err
	}
	told := tell(notices)
	if r.ExitCode != 0 {
		return "", told, enplace.Invalidf("%s", strings.Join(append([]string{strings.TrimSpace(r.Stderr)}, told.Notices...), "\n")).WithField("path")
	}
	return r.Stdout, told, nil
}

func absolute(path string) error {
	if !strings.HasPrefix(path, "/") || strings.ContainsRune(path, 0) {
		return enplace.Invalidf("must be an absolute path").WithField("path")
	}
	return nil
}

// readProgram may have its tail end by SIGPIPE, when head has had enough, so the pipe has no say. It reads one byte more than is
// shown, to know whether there are more: the files of /proc have no size.
const readProgram = `set -e
[ -e "$1" ] || { echo "there is no $1" >&2; exit 1; }
[ -f "$1" ] || { echo "$1 is no file" >&2; exit 1; }
stat -L -c %s -- "$1"
tail -c "+$2" -- "$1" | head -c "$3" | base64 -w0`

func (t tools) read(ctx context.Context, in ReadInput) (ReadOutput, error) {
	if err := absolute(in.Path); err != nil {
		return ReadOutput{}, err
	}
	switch {
	case in.Offset < 0 || in.Offset == math.MaxInt64:
		return ReadOutput{}, enplace.Invalidf("is no place in a file").WithField("offset")
	case in.Limit < 0:
		return ReadOutput{}, enplace.Invalidf("is negative").WithField("limit")
	case in.Limit == 0 || in.Limit > maxRead:
		in.Limit = maxRead
	}
	out, told, err := t.script(ctx, readProgram, "", in.Path, strconv.FormatInt(in.Offset+1, 10), strconv.FormatInt(in.Limit+1, 10))
	if err != nil {
		return ReadOutput{}, err
	}
	first, rest, _ := strings.Cut(out, "\n")
	size, err := strconv.ParseInt(first, 10, 64)
	if err != nil {
		return ReadOutput{}, fmt.Errorf("reading the size of %s: %w", in.Path, err)
	}
	content, err := base64.StdEncoding.DecodeString(rest)
	if err != nil {
		return ReadOutput{}, fmt.Errorf("reading %s: %w", in.Path, err)
	}
	r := ReadOutput{Size: size, Told: told}
	more := int64(len(content)) > in.Limit
	if more {
		content = content[:in.Limit]
	}
	whole := content[:len(content)-partial(content)]
	if r.Content, r.Encoding = string(whole), "utf-8"; !utf8.Valid(whole) || len(whole) == 0 && len(content) > 0 {
		whole = content
		r.Content, r.Encoding = base64.StdEncoding.EncodeToString(content), "base64"
	}
	if more || len(whole) < len(content) {
		r.NextOffset = in.Offset + int64(len(whole))
	}
	return r, nil
}

// partial gives the length of the rune that the end of p cut.
func partial(p []byte) int {
	for n := 1; n <= min(utf8.UTFMax-1, len(p)); n++ {
		if utf8.RuneStart(p[len(p)-n]) {
			if !utf8.FullRune(p[len(p)-n:]) {
				return n
			}
			break
		}
	}
	return 0
}

// writeProgram keeps owner and mode of a file that is there, and follows a link to the file that is meant. What is no file, such
// as a pipe, is not replaced by one. What it says is written is on the disk.
const writeProgram = `set -eo pipefail
path=$(readlink -m -- "$1")
[ ! -d "$path" ] || { echo "$1 is a folder" >&2; exit 1; }
[ ! -e "$path" ] || [ -f "$path" ] || { echo "$1 is no file" >&2; exit 1; }
dir=$(dirname -- "$path")
mkdir -p -- "$dir"
temp=$(mktemp -- "$dir/.enplace.XXXXXXXX")
trap 'rm -f -- "$temp"' EXIT
base64 -d > "$temp"
chmod 644 -- "$temp"
[ ! -e "$path" ] || { chown --reference="$path" -- "$temp"; chmod --reference="$path" -- "$temp"; }
[ "$2" = 0 ] || chmod a+x -- "$temp"
sync -- "$temp"
mv -fT -- "$temp" "$path"
sync -- "$dir"`

func (t tools) write(ctx context.Context, in WriteInput) (WriteOutput, error) {
	if err := absolute(in.Path); err != nil {
		return WriteOutput{}, err
	}
	content := []byte(in.Content)
	switch in.Encoding {
	case "", "utf-8":
	case "base64":
		var err error
		if content, err = base64.StdEncoding.DecodeString(in.Content); err != nil {
			return WriteOutput{}, enplace.Invalidf("is no base64").WithField("content")
		}
	default:
		return WriteOutput{}, enplace.Invalidf("%q is none of utf-8, base64", in.Encoding).WithField("encoding")
	}
	if len(content) > maxWrite {
		return WriteOutput{}, enplace.TooLargef("has %d bytes; the limit is %d: write it in parts with run_command", len(content), maxWrite).WithField("content")
	}
	executable := "0"
	if in.Executable {
		executable = "1"
	}
	_, told, err := t.script(ctx, writeProgram, base64.StdEncoding.EncodeToString(content), in.Path, executable)
	return WriteOutput{Path: in.Path, Bytes: len(content), Told: told}, err
}

// listProgram asks for one entry more than is shown, to know whether there are more.
const listProgram = `[ -e "$1" ] || { echo "there is no $1" >&2; exit 1; }
[ -d "$1" ] || { echo "$1 is no folder" >&2; exit 1; }
find "$1/." -mindepth 1 -maxdepth "$2" -printf '%y\t%s\t%P\0' 2>/dev/null | sort -z -t "$(printf '\t')" -k 3 | head -z -n "$3"`

func (t tools) list(ctx context.Context, in ListInput) (ListOutput, error) {
	if err := absolute(in.Path); err != nil {
		return ListOutput{}, err
	}
	if in.Depth < 0 || in.Depth > maxDepth {
		return ListOutput{}, enplace.Invalidf("must lie between 1 and %d; list a folder below for what is deeper", maxDepth).WithField("depth")
	}
	out, told, err := t.script(ctx, listProgram, "", in.Path, strconv.Itoa(max(in.Depth, 1)), strconv.Itoa(maxListed+1))
	if err != nil {
		return ListOutput{}, err
	}
	l := ListOutput{Entries: []Entry{}, Told: told}
	for line := range strings.SplitSeq(strings.TrimSuffix(out, "\x00"), "\x00") {
		f := strings.SplitN(line, "\t", 3)
		if len(f) != 3 {
			continue
		}
		if len(l.Entries) == maxListed {
			l.More = true
			break
		}
		size, err := strconv.ParseInt(f[1], 10, 64)
		if err != nil {
			return l, fmt.Errorf("listing %s: %w", in.Path, err)
		}
		kind, ok := map[string]string{"f": "file", "d": "directory", "l": "link"}[f[0]]
		if !ok {
			kind = "other"
		}
		l.Entries = append(l.Entries, Entry{Path: f[2], Type: kind, Size: size})
	}
	return l, nil
}
