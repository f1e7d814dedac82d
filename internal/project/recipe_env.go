package project

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"enplace/internal/build"
	"enplace/internal/sandbox"
)

// buildEnv are the variables of every command of a build, beside sandbox.BaseEnv.
func (p *plan) buildEnv() []string {
	env := []string{
		"PROJECT_ROOT=" + p.root, "DEBCONF_NONINTERACTIVE_SEEN=true", "NEEDRESTART_MODE=a",
		"PATH=" + p.root + "/.venv/bin:" + p.root + "/node_modules/.bin:" + sandbox.DefaultPath,
	}
	env = append(env, sandbox.GitByHTTPS()...)
	for name, dir := range downloads {
		env = append(env, name+"="+p.root+"/.cache/"+dir)
	}
	return env
}

// downloads are the variables by which tools that download at install time are pointed into the version, and later at it.
var downloads = map[string]string{
	"PLAYWRIGHT_BROWSERS_PATH": "playwright",
	"PUPPETEER_CACHE_DIR":      "puppeteer",
	"PYPPETEER_HOME":           "pyppeteer",
	"CYPRESS_CACHE_FOLDER":     "cypress",
	"ELECTRON_CACHE":           "electron",
	"NLTK_DATA":                "nltk",
	"GENSIM_DATA_DIR":          "gensim",
	"HF_HOME":                  "huggingface",
	"TORCH_HOME":               "torch",
	"TIKTOKEN_CACHE_DIR":       "tiktoken",
}

// home is the home folder of a build, which no task has.
const home = "root"

// ownCaches are what the package managers themselves keep there; nobody misses it.
var ownCaches = []string{
	"root/.npm", "root/.node-gyp", "root/.yarn", "root/.config", "root/.cache/node", "root/.cache/node-gyp", "root/.cache/pip", "root/.cache/uv",
	"root/.cache/yarn", "root/.cache/pnpm", "root/.cache/pypoetry", "root/.local/share/pnpm", "root/.local/share/uv", "root/.local/share/pypoetry",
	"root/.local/share/virtualenv", "root/.local/state",
}

// leftAtHome names what an install wrote to its home, where tasks will not find it.
func leftAtHome(ctx context.Context, sh *build.Shell) ([]string, error) {
	sizes, err := sh.Written(ctx, "/", 4)
	if err != nil {
		return nil, err
	}
	return thrownAway(sizes), nil
}

func thrownAway(sizes map[string]int64) []string {
	const tolerated = 64 << 10 // settings and marks
	var out []string
	for dir, size := range sizes {
		own := slices.ContainsFunc(ownCaches, func(c string) bool { return dir == c || strings.HasPrefix(dir, c+"/") })
		if strings.HasPrefix(dir, home+"/") && !own && size > tolerated {
			out = append(out, fmt.Sprintf("an install wrote %d KiB to /%s, which tasks will not have; let it write below $PROJECT_ROOT/.cache", size>>10, dir))
		}
	}
	slices.Sort(out)
	return out
}
