package sandbox

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"enplace"
	"enplace/internal/guest"
)

// ProxyAddress is where the guest listens for HTTP proxy requests inside every sandbox.
const ProxyAddress = "127.0.0.1:3128"

// CAPath is the bundle of trusted certificates inside every sandbox: the host's, so the operator's are among them.
const CAPath = "/run/enplace/ca.crt"

// The programs of Enplace inside every sandbox: the guest, which is process 1, and the target of the links that are shims.
const (
	GuestPath = guest.Path
	ShimPath  = guest.ShimPath
)

// EgressSocket is the host's proxy inside every sandbox, which the guest forwards to.
const EgressSocket = "/run/enplace/egress.sock"

// TaskDir is the working directory of every sandbox.
const TaskDir = "/task"

// EnvPath is the file that a Setup writes for commands that bring no environment of their own: terminals, rsync, editors.
// It holds KEY=value, separated by NUL.
const EnvPath = "/run/enplace/env"

// DefaultPath is the PATH of a sandbox without anything else.
const DefaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// LoginFile keeps PATH for login shells, which agents like to use: Debian's /etc/profile replaces it, and what was put in place
// would be found no more. It takes it from the environment that the shell was started with, and adds the shims where that is none
// of a conversation's.
func LoginFile() SetupFile {
	return SetupFile{Path: "/etc/profile.d/enplace.sh", Content: []byte(loginScript), Mode: 0o644}
}

// loginScript starts no program in bash. Whoever starts a shell without PATH gets that of /etc/profile.
const loginScript = `# PATH as this shell was given it, in place of the one in /etc/profile.
if [ -n "${BASH_VERSION-}" ]; then
    while IFS= read -r -d '' enplace_var; do
        case $enplace_var in PATH=?*) PATH=${enplace_var#PATH=} ;; esac
    done < /proc/$$/environ
else
    enplace_var=$(tr '\0' '\n' < /proc/$$/environ | sed -n 's/^PATH=//p')
    PATH=${enplace_var:-$PATH}
fi
unset enplace_var
# After su - and sudo -i nothing is left of a conversation: such a shell finds the tools of the computer's own set.
if [ -z "${ENPLACE_SET-}" ] && [ -d ` + enplace.ShimsDir + ` ]; then
    case :$PATH: in
    *:` + enplace.ShimsDir + `:*) ;;
    *) PATH=` + enplace.ShimsDir + `:$PATH ;;
    esac
fi
`

// SudoFile has sudo leave commands the shims and the way out: by itself it keeps neither PATH nor the proxy's variables, so that
// another node would run in silence, and sudo apt-get would reach nothing.
func SudoFile() SetupFile {
	var kept []string
	for _, v := range BaseEnv() {
		name, _, _ := strings.Cut(v, "=")
		if !slices.Contains([]string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM"}, name) { // sudo has rules of its own for these
			kept = append(kept, name)
		}
	}
	content := fmt.Sprintf("# What reaches the network, and the tools of the set, also under sudo.\nDefaults secure_path=\"%s:%s\"\nDefaults env_keep+=\"ENPLACE_SET %s\"\n",
		enplace.ShimsDir, DefaultPath, strings.Join(kept, " "))
	return SetupFile{Path: "/etc/sudoers.d/enplace", Content: []byte(content), Mode: 0o440}
}

// BaseEnv gives the variables that every command starts from: PATH, HOME and locale, the proxy and the certificates in the
// spelling of each tool that has its own, and colours and progress bars off. Nothing of the server's environment is in it.
func BaseEnv() []string {
	proxy := "http://" + ProxyAddress
	return []string{
		"PATH=" + DefaultPath, "HOME=/root", "USER=root", "LOGNAME=root", "SHELL=/bin/bash", "LANG=C.UTF-8", "TERM=dumb", "NO_COLOR=1",
		"HTTP_PROXY=" + proxy, "HTTPS_PROXY=" + proxy, "http_proxy=" + proxy, "https_proxy=" + proxy,
		"NO_PROXY=localhost,127.0.0.1,::1", "no_proxy=localhost,127.0.0.1,::1",
		"npm_config_proxy=" + proxy, "npm_config_https_proxy=" + proxy, "NODE_USE_ENV_PROXY=1",
		"SSL_CERT_FILE=" + CAPath, "CURL_CA_BUNDLE=" + CAPath, "REQUESTS_CA_BUNDLE=" + CAPath, "PIP_CERT=" + CAPath,
		"GIT_SSL_CAINFO=" + CAPath, "NODE_EXTRA_CA_CERTS=" + CAPath, "npm_config_cafile=" + CAPath,
		"PIP_PROGRESS_BAR=off", "PIP_DISABLE_PIP_VERSION_CHECK=1", "npm_config_progress=false", "npm_config_update_notifier=false",
		"npm_config_fund=false", "npm_config_audit=false", "UV_NO_PROGRESS=1", "DEBIAN_FRONTEND=noninteractive",
		"PYTHONNOUSERSITE=1", "GIT_TERMINAL_PROMPT=0",
	}
}

// Env is BaseEnv with folders before its PATH, and variables beside or instead of its own.
func Env(bin []string, vars map[string]string) []string {
	env := BaseEnv()
	for i, v := range env {
		name, _, _ := strings.Cut(v, "=")
		if name == "PATH" {
			env[i] = "PATH=" + strings.Join(append(slices.Clone(bin), DefaultPath), ":")
		} else if value, ok := vars[name]; ok {
			env[i] = name + "=" + value
		}
	}
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		if !slices.Contains(env, name+"="+vars[name]) {
			env = append(env, name+"="+vars[name])
		}
	}
	return env
}

// gitHosts are those whose ssh addresses package managers make out of short names such as github:owner/name. Their https
// addresses give the same repositories.
var gitHosts = []string{"github.com", "gitlab.com", "bitbucket.org"}

// GitByHTTPS gives the variables by which git fetches what is named by ssh over https: for installations, which have no keys
// and no terminal to ask for one.
func GitByHTTPS() []string {
	var env []string
	n := 0
	for _, host := range gitHosts {
		for _, ssh := range []string{"ssh://git@" + host + "/", "git@" + host + ":"} {
			env = append(env, fmt.Sprintf("GIT_CONFIG_KEY_%d=url.https://%s/.insteadOf", n, host), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", n, ssh))
			n++
		}
	}
	return append(env, fmt.Sprintf("GIT_CONFIG_COUNT=%d", n))
}
