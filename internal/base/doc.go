// Package base makes the root filesystem that every sandbox starts from, and seals it as an image: Debian by mmdebstrap,
// or an OCI image, a tarball or a directory of the operator's, with the tools that builds need, each pinned by version and
// hash. It is the only place that knows how a root comes to be; everything above it knows one digest, which is part of every
// cache key. A root that is not Debian's own is hostile input: it is unpacked by handle, and nothing of it is ever run outside
// a container.
package base
