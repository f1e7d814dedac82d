package project

import (
	"io"
	"time"

	"enplace"
)

// CreateEnvironment asks for an environment.
type CreateEnvironment struct {
	Name          string            `json:"name" maxLength:"200"`
	Packages      *enplace.Packages `json:"packages,omitempty"`
	PythonVersion string            `json:"python_version,omitempty"`
	PipIndexURL   string            `json:"pip_index_url,omitempty"`
	Check         []string          `json:"check,omitempty"`
	Scripts       *bool             `json:"npm_scripts,omitempty"`
	Egress        *enplace.Egress   `json:"egress,omitempty"`
}

// UpdateEnvironment changes an environment; what is absent stays. A list of packages replaces that manager's list.
type UpdateEnvironment struct {
	Name          *string         `json:"name,omitempty" maxLength:"200"`
	Packages      *PackageLists   `json:"packages,omitempty"`
	PythonVersion *string         `json:"python_version,omitempty"`
	PipIndexURL   *string         `json:"pip_index_url,omitempty"`
	Check         *[]string       `json:"check,omitempty"`
	Scripts       *bool           `json:"npm_scripts,omitempty"`
	Egress        *enplace.Egress `json:"egress,omitempty"`
}

// PackageLists are the lists that an update replaces; a nil one stays.
type PackageLists struct {
	Pip *[]string `json:"pip,omitempty"`
	NPM *[]string `json:"npm,omitempty"`
	Apt *[]string `json:"apt,omitempty"`
}

// ImportOptions say how an import meets the tree that is there.
type ImportOptions struct {
	Merge bool // keep what the import does not bring; else it is removed
}

// PackageQuery asks a registry about a name.
type PackageQuery struct {
	Manager     enplace.Manager
	Name        string
	Version     string
	Environment string // optional: its Python version and index are asked
}

// File is a file of a tree being read.
type File struct {
	Entry   enplace.TreeEntry
	Content io.ReadSeekCloser
}

// Wait bounds how long a call waits for something to end; 0 answers at once.
type Wait = time.Duration
