package enplace

import (
	"strings"
	"time"
	"unicode"
)

// Environment is a project and its packages.
type Environment struct {
	ID            string           `json:"id"`
	Name          string           `json:"name"`
	Slug          string           `json:"slug" doc:"Made from the name at creation, and fixed"`
	Path          string           `json:"path" doc:"Where builds and tasks see the project"`
	Owner         string           `json:"owner" doc:"Who created it"`
	Packages      Packages         `json:"packages"`
	PythonVersion string           `json:"python_version,omitempty" doc:"A Python other than the base's, such as 3.12"`
	PipIndexURL   string           `json:"pip_index_url,omitempty" doc:"The package index to use instead of PyPI"`
	Check         []string         `json:"check,omitempty" doc:"A command that must pass at the end of each build"`
	Scripts       *bool            `json:"npm_scripts,omitempty" doc:"Whether npm packages may run their install scripts; they may unless false"`
	Egress        *Egress          `json:"egress,omitempty" doc:"What builds may reach, instead of the operator's default"`
	ActiveVersion *int             `json:"active_version" doc:"The version that new tasks read; null before the first build"`
	Versions      []VersionSummary `json:"versions,omitzero" doc:"The newest first; absent in lists"`
	Files         int              `json:"files" doc:"Files in the tree"`
	Bytes         int64            `json:"bytes" doc:"Bytes in the tree"`
	CreatedAt     time.Time        `json:"created_at"`
	UpdatedAt     time.Time        `json:"updated_at"`
}

// CreateEnvironment asks for an environment.
type CreateEnvironment struct {
	Name          string    `json:"name" maxLength:"200" doc:"Its slug and path are made from it"`
	Packages      *Packages `json:"packages,omitempty"`
	PythonVersion string    `json:"python_version,omitempty" doc:"A Python other than the base's, such as 3.12"`
	PipIndexURL   string    `json:"pip_index_url,omitempty" doc:"The package index to use instead of PyPI"`
	Check         []string  `json:"check,omitempty" doc:"A command (argv) that must pass at the end of each build"`
	Scripts       *bool     `json:"npm_scripts,omitempty" doc:"Whether npm packages may run their install scripts; they may unless false"`
	Egress        *Egress   `json:"egress,omitempty" doc:"What builds may reach, instead of the operator's default"`
}

// UpdateEnvironment changes an environment; what is absent stays. A list of packages replaces that manager's list.
type UpdateEnvironment struct {
	Name          *string       `json:"name,omitempty" maxLength:"200" doc:"The slug and the path stay as they are"`
	Packages      *PackageLists `json:"packages,omitempty"`
	PythonVersion *string       `json:"python_version,omitempty" doc:"Empty for the base's"`
	PipIndexURL   *string       `json:"pip_index_url,omitempty" doc:"Empty for the default"`
	Check         *[]string     `json:"check,omitempty" doc:"Empty for none"`
	Scripts       *bool         `json:"npm_scripts,omitempty"`
	Egress        *Egress       `json:"egress,omitempty"`
}

// PackageLists are the lists that an update replaces; a nil one stays.
type PackageLists struct {
	Pip *[]string `json:"pip,omitempty" doc:"Such as pandas==2.2.3 or httpx[http2]>=0.27"`
	NPM *[]string `json:"npm,omitempty" doc:"Such as typescript@5.6.3 or @types/node"`
	Apt *[]string `json:"apt,omitempty" doc:"Such as jq or ffmpeg"`
}

// EnvironmentPath is where an environment of that slug stands in every sandbox.
func EnvironmentPath(slug string) string { return "/env/" + slug }

// MaxSlugLength keeps /env/<slug>/.venv/bin/python below the length that a #! line may have.
const MaxSlugLength = 63

// Slug makes a slug from a name: "Content Studio" gives "content-studio". Letters outside ASCII are dropped to their
// nearest separator, so a name without any ASCII letter or digit is refused.
func Slug(name string) (string, error) {
	if err := CheckName(name); err != nil {
		return "", err
	}
	var b strings.Builder
	dash := false
	for _, r := range strings.ToLower(name) {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			if dash && b.Len() > 0 {
				b.WriteByte('-')
			}
			dash = false
			b.WriteRune(r)
			continue
		}
		dash = true
	}
	slug := b.String()
	if len(slug) > MaxSlugLength {
		slug = strings.TrimRight(slug[:MaxSlugLength], "-")
	}
	if slug == "" {
		return "", Invalidf("the name %q has no ASCII letter or digit to make a path from; add one", name).WithField("name")
	}
	return slug, nil
}

// CheckName refuses a name that is empty, too long, or holds control characters.
func CheckName(name string) error {
	if strings.TrimSpace(name) == "" {
		return Invalidf("is required").WithField("name")
	}
	if len([]rune(name)) > MaxNameLength {
		return Invalidf("has %d characters; the limit is %d", len([]rune(name)), MaxNameLength).WithField("name")
	}
	for _, r := range name {
		if unicode.IsControl(r) || r == unicode.ReplacementChar {
			return Invalidf("holds a control character or invalid UTF-8").WithField("name")
		}
	}
	return nil
}

// TreeEntry is one file or link of a tree. Directories exist by what is in them.
type TreeEntry struct {
	Path       string    `json:"path"`
	Type       EntryType `json:"type" enum:"file,link"`
	Size       int64     `json:"size"`
	Executable bool      `json:"executable,omitempty"`
	Target     string    `json:"target,omitempty" doc:"Where a link points; always inside the tree"`
	Digest     Digest    `json:"digest,omitempty"`
}

// EntryType is the type of a TreeEntry.
type EntryType string

// The types of tree entries.
const (
	EntryFile EntryType = "file"
	EntryLink EntryType = "link"
)

// ImportReport says what an import did.
type ImportReport struct {
	Imported  int      `json:"imported" doc:"Files and links now in the tree from this import"`
	Bytes     int64    `json:"bytes"`
	Skipped   []Count  `json:"skipped" doc:"What was left out, and why"`
	Renamed   []Count  `json:"renamed" doc:"Names that were changed, and why"`
	Unwrapped string   `json:"unwrapped,omitempty" doc:"The single top folder that was taken off"`
	Replaced  bool     `json:"replaced" doc:"Whether the tree was replaced; merged otherwise"`
	Commit    string   `json:"commit,omitempty" doc:"For git: the commit that was imported"`
	Describe  string   `json:"describe,omitempty" doc:"For git: what git describe says of it"`
	Notes     []string `json:"notes,omitempty"`
}

// Count is a number of entries that one rule touched, with the first few of them.
type Count struct {
	Rule     string   `json:"rule"`
	Count    int      `json:"count"`
	Examples []string `json:"examples,omitempty"`
}

// GitSource names what to import from a git repository.
type GitSource struct {
	URL    string `json:"git_url"`
	Ref    string `json:"ref,omitempty" doc:"Branch, tag or commit; the default branch when empty"`
	Subdir string `json:"subdir,omitempty" doc:"A folder of the repository to import instead of all of it"`
}
