package server

import (
	"github.com/danielgtaylor/huma/v2"

	"enplace"
)

// Bodies that hold text of a task's are larger in JSON than what they carry: a quote or a line end takes two bytes.
const maxTaskBody = 2*enplace.MaxInputBytes + enplace.MaxJSONBytes

// routes adds every route of the API.
func (s *Server) routes() {
	s.environmentRoutes(section{s, "Environments"})
	s.fileRoutes(section{s, "Files"})
	s.buildRoutes(section{s, "Builds"})
	s.versionRoutes(section{s, "Versions"})
	s.harnessRoutes(section{s, "Harnesses"})
	s.taskRoutes(section{s, "Tasks"})
	s.peopleRoutes(section{s, "People"})
	s.pluginRoutes(section{s, "Plugins"})
	s.itemRoutes(section{s, "Items"})
	s.conversationRoutes(section{s, "Conversations"})
	s.computerRoutes(section{s, "Computers"})
	s.serverRoutes(section{s, "Server"})
}

func (s *Server) environmentRoutes(at section) {
	handle(at, "POST /v1/environments", "create-environment", "Create an environment\nIts slug, and so its path, are made from the name and never change.", s.createEnvironment, created)
	handle(at, "GET /v1/environments", "list-environments", "List environments\nNewest first, without their versions.", s.listEnvironments)
	handle(at, "GET /v1/environments/{id}", "get-environment", "Show an environment", s.getEnvironment)
	handle(at, "PUT /v1/environments/{id}", "update-environment", "Change an environment\nWhat is absent stays. A list of packages replaces that manager's list; every entry is checked against its registry, and an unknown name or version is refused by name. The next build uses them.", s.updateEnvironment)
	handle(at, "DELETE /v1/environments/{id}", "delete-environment", "Delete an environment\nWith its tree, builds and versions. Tasks that run keep what they read until they end.", s.deleteEnvironment)
	handle(at, "GET /v1/environments/packages/check", "check-package", "Ask a registry about a package\nA registry that does not answer is a problem of kind upstream, and never an unknown package.", s.checkPackage)
}

func (s *Server) fileRoutes(at section) {
	archive := limit(enplace.MaxArchiveBytes, "an archive")
	handle(at, "GET /v1/environments/{id}/files", "list-files", "List the tree\nOrdered by path.", s.listFiles)
	handle(at, "GET /v1/environments/{id}/files/{path...}", "get-file", "Get a file\nIts ETag is its SHA-256; ranges are served.", s.getFile, answers("200", "The file's bytes", "application/octet-stream"))
	handle(at, "HEAD /v1/environments/{id}/files/{path...}", "head-file", "Look at a file\nThe headers of get-file.", s.getFile, answers("200", "The file's headers"))
	handle(at, "PUT /v1/environments/{id}/files/{path...}", "put-file", "Write a file\nThe body is its bytes. 201 when it is new. Versions already built do not change.", s.putFile, raw, limit(enplace.MaxFileBytes, "a file"))
	handle(at, "DELETE /v1/environments/{id}/files/{path...}", "delete-file", "Delete a file\nOr a folder with all below it.", s.deleteFile)
	handle(at, "POST /v1/environments/{id}/import", "import", "Import an archive or a git repository\nAn archive (zip, tar, tar.gz, tar.bz2, tar.xz, tar.zst; told by its first bytes) as the body, or a repository as application/json. All or nothing: a failed import leaves the tree as it was. What was skipped, renamed or unwrapped is reported.", s.importTree, raw, archive)
	doc := s.api.OpenAPI()
	bytes := &huma.Schema{Type: huma.TypeString, Format: "binary"}
	doc.Paths["/v1/environments/{id}/files/{path...}"].Put.RequestBody = streamed(s.api, "The file's bytes", map[string]*huma.Schema{"application/octet-stream": bytes})
	doc.Paths["/v1/environments/{id}/import"].Post.RequestBody = streamed(s.api, "An archive, or a git repository", map[string]*huma.Schema{
		"application/octet-stream": bytes, "application/json": schemaOf[enplace.GitSource](doc.Components.Schemas),
	})
}

func (s *Server) buildRoutes(at section) {
	log := answers("200", "The log", "text/plain", "text/event-stream")
	handle(at, "POST /v1/environments/{id}/build", "build", "Queue the next build\nIt works on a snapshot of the tree and the packages as they are now. One that succeeds becomes the next version and the active one; one that fails changes nothing.", s.build, accepted)
	handle(at, "GET /v1/environments/{id}/builds", "list-builds", "List builds\nNewest first.", s.listBuilds)
	handle(at, "GET /v1/environments/{id}/builds/{n}", "get-build", "Show a build\nWith wait, when it has ended or the time is up.", s.getBuild)
	handle(at, "POST /v1/environments/{id}/builds/{n}/cancel", "cancel-build", "Cancel a build\nIt is stopped with everything it started.", s.cancelBuild)
	handle(at, "GET /v1/environments/{id}/builds/{n}/log", "get-build-log", "Read or follow a build's log\nText as it is now, or live with follow. As text/event-stream: an event for each line, with the byte behind it as its id, and at the end one called end with the build's status.", s.buildLog, log)
}

func (s *Server) versionRoutes(at section) {
	handle(at, "GET /v1/environments/{id}/versions", "list-versions", "List versions\nNewest first.", s.listVersions)
	handle(at, "GET /v1/environments/{id}/versions/{n}", "get-version", "Show a version with its manifest", s.getVersion)
	handle(at, "DELETE /v1/environments/{id}/versions/{n}", "delete-version", "Delete a version\nThe active one cannot be deleted. Tasks that read it keep it until they end.", s.deleteVersion)
	handle(at, "POST /v1/environments/{id}/versions/{n}/activate", "activate-version", "Make a version the active one\nNew tasks read it; those that run keep theirs.", s.activate)
	handle(at, "GET /v1/environments/{id}/diff", "diff-versions", "Compare two versions\nBy files and by packages.", s.diff)
}

func (s *Server) harnessRoutes(at section) {
	handle(at, "POST /v1/harnesses", "create-harness", "Create a harness\nA command with its environment, instructions, egress and limits. Without a command its tasks are open sandboxes.", s.createHarness, created)
	handle(at, "GET /v1/harnesses", "list-harnesses", "List harnesses\nNewest first.", s.listHarnesses)
	handle(at, "GET /v1/harnesses/{id}", "get-harness", "Show a harness", s.getHarness)
	handle(at, "DELETE /v1/harnesses/{id}", "delete-harness", "Delete a harness\nIts tasks stay.", s.deleteHarness)
}

func (s *Server) taskRoutes(at section) {
	log := answers("200", "The log", "text/plain", "text/event-stream")
	body := limit(maxTaskBody, "a task")
	handle(at, "POST /v1/tasks", "create-task", "Start a task\nWith the environment's active version in place, read only. The input is the command's standard input.", s.createTask, created, body)
	handle(at, "GET /v1/tasks", "list-tasks", "List tasks\nNewest first.", s.listTasks)
	handle(at, "GET /v1/tasks/{id}", "get-task", "Show a task\nWith wait, when it has ended or the time is up.", s.getTask)
	handle(at, "POST /v1/tasks/{id}/cancel", "cancel-task", "Cancel a task\nIt is stopped with everything it started.", s.cancelTask)
	handle(at, "GET /v1/tasks/{id}/log", "get-task-log", "Read or follow what a task prints\nText as it is now, or live with follow. As text/event-stream: an event for each line, with the byte behind it as its id, and at the end one called end with the task's status.", s.taskLog, log)
	handle(at, "GET /v1/tasks/{id}/files", "list-task-files", "List what a task left in its working directory\nOrdered by path.", s.listTaskFiles)
	handle(at, "GET /v1/tasks/{id}/files/{path...}", "get-task-file", "Get a file of a task's working directory", s.getTaskFile, answers("200", "The file's bytes", "application/octet-stream"))
	handle(at, "GET /v1/tasks/{id}/archive", "get-task-archive", "Get a task's working directory as a tar", s.taskArchive, answers("200", "A tar", "application/x-tar"))
	handle(at, "POST /v1/tasks/{id}/exec", "exec", "Run a command in a task's sandbox\nThe result with its output; or, as application/x-ndjson, output as it comes and the result as the last line. A client that leaves kills the command.", s.exec, limit(maxTaskBody, "a command"))
	handle(at, "GET /v1/tasks/{id}/ssh", "ssh", "Open an SSH connection into a task's sandbox\nThe connection is upgraded (Upgrade: enplace-ssh) and then speaks SSH; any user name is taken, without a password.", s.ssh, answers("101", "The connection speaks SSH from here on"))
	documentExec[enplace.ExecResult, enplace.ExecEvent](s.api, "/v1/tasks/{id}/exec")
}

// documentExec says what a route answers that runs commands.
func documentExec[R, E any](api huma.API, path string) {
	schemas := api.OpenAPI().Components.Schemas
	api.OpenAPI().Paths[path].Post.Responses["200"] = &huma.Response{Description: "The result, or events", Content: map[string]*huma.MediaType{
		"application/json": {Schema: schemaOf[R](schemas)}, ndjson: {Schema: schemaOf[E](schemas)},
	}}
}

func (s *Server) peopleRoutes(at section) {
	handle(at, "PUT /v1/teams/{team}", "put-team", "Make a team, or change its people\nWho is left out leaves the team; a login that is not known yet becomes a person.", s.putTeam)
	handle(at, "GET /v1/teams", "list-teams", "List teams\nBy name.", s.listTeams)
	handle(at, "GET /v1/teams/{team}", "get-team", "Show a team", s.getTeam)
	handle(at, "DELETE /v1/teams/{team}", "delete-team", "Delete a team\nOne that owns nothing any more.", s.deleteTeam)
	handle(at, "PUT /v1/people/{person}", "put-person", "Make a person", s.putPerson)
	handle(at, "GET /v1/people", "list-people", "List people\nBy login.", s.listPeople)
	handle(at, "GET /v1/people/{person}", "get-person", "Show a person", s.getPerson)
	handle(at, "DELETE /v1/people/{person}", "delete-person", "Delete a person\nOne who owns nothing any more.", s.deletePerson)
	handle(at, "PUT /v1/rooms/{room}", "put-room", "Make a room, or change it\nOf the organisation, or of one team.", s.putRoom)
	handle(at, "GET /v1/rooms", "list-rooms", "List rooms\nBy name.", s.listRooms)
	handle(at, "GET /v1/rooms/{room}", "get-room", "Show a room", s.getRoom)
	handle(at, "DELETE /v1/rooms/{room}", "delete-room", "Delete a room\nWith its conversations; one without a computer.", s.deleteRoom)
}

func (s *Server) pluginRoutes(at section) {
	archive := limit(enplace.MaxArchiveBytes, "an archive")
	handle(at, "POST /v1/plugins", "create-plugin", "Attach a plugin to a scope\nA git repository as JSON; or an archive (as import takes them) as the body, with scope and name in the query. Its items are in force at once. What could not be taken is in the findings; a plugin of which nothing can be taken is refused.", s.createPlugin, created, raw, archive)
	handle(at, "GET /v1/plugins", "list-plugins", "List the plugins of a scope, or all that the key can see\nNewest first.", s.listPlugins)
	handle(at, "GET /v1/plugins/{id}", "get-plugin", "Show a plugin with the findings of its last sync\nBy its id; or by its name, with its scope where plugins of several scopes have the name.", s.getPlugin)
	handle(at, "POST /v1/plugins/{id}/sync", "sync-plugin", "Take a plugin's content anew\nFrom its repository, without a body; or from the archive that is the body. An item that the new content breaks keeps its last good definition.", s.syncPlugin, raw, archive)
	handle(at, "DELETE /v1/plugins/{id}", "delete-plugin", "Delete a plugin\nWith its items. What they installed stays on computers.", s.deletePlugin)
	doc := s.api.OpenAPI()
	bytes := &huma.Schema{Type: huma.TypeString, Format: "binary"}
	doc.Paths["/v1/plugins"].Post.RequestBody = streamed(s.api, "A git repository, or an archive", map[string]*huma.Schema{
		"application/json": schemaOf[enplace.CreatePlugin](doc.Components.Schemas), "application/octet-stream": bytes,
	})
	body := streamed(s.api, "An archive, for a plugin that came as one", map[string]*huma.Schema{"application/octet-stream": bytes})
	body.Required = false
	doc.Paths["/v1/plugins/{id}/sync"].Post.RequestBody = body
}

func (s *Server) itemRoutes(at section) {
	handle(at, "GET /v1/items", "list-items", "List the items that a scope declares or inherits\nThe organisation's first, then the team's, then the person's; by key within each, and without their files. Of each it is said whether it is in the set of a conversation that reads just this scope and those above, and why.", s.listItems)
	handle(at, "GET /v1/items/{scope}/{key}", "get-item", "Show an item with its files", s.getItem)
	handle(at, "PUT /v1/items/{scope}/{key}", "update-item", "Change how an item is offered\nBy its own scope. What is absent stays.", s.updateItem)
	handle(at, "PUT /v1/scopes/{scope}/items/{key}", "put-choice", "Say what a scope wants of an item that it reads\nAdded, off, or inherit: what the scopes above say. An item that the organisation locked is not to be chosen.", s.putChoice)
	handle(at, "PUT /v1/scopes/{scope}/egress", "put-egress", "Say what a scope lets computers reach\nA conversation gets the strictest of its scopes' policies.", s.putEgress)
	handle(at, "GET /v1/scopes/{scope}/egress", "get-egress", "Show what a scope lets computers reach", s.getEgress)
	handle(at, "DELETE /v1/scopes/{scope}/egress", "delete-egress", "Leave what computers reach to the other scopes", s.deleteEgress)
	handle(at, "PUT /v1/scopes/{scope}/keychain/{name}", "put-secret", "Set a value of the keychain\nCommands of conversations that read the scope get it as a variable; installations and bundles never do. It never comes back.", s.putSecret, sealed)
	handle(at, "GET /v1/scopes/{scope}/keychain", "list-secrets", "List the keychain of a scope\nBy name, and without any value.", s.listSecrets)
	handle(at, "DELETE /v1/scopes/{scope}/keychain/{name}", "delete-secret", "Remove a value from the keychain\nCommands that run keep it until they end.", s.deleteSecret)
}

func (s *Server) conversationRoutes(at section) {
	handle(at, "PUT /v1/conversations/{id}", "put-conversation", "Make a conversation, or change what it reads\nWith a person, or in a room: that says which scopes it reads, and on which computer its commands run.", s.putConversation)
	handle(at, "GET /v1/conversations", "list-conversations", "List conversations\nBy id.", s.listConversations)
	handle(at, "GET /v1/conversations/{id}", "get-conversation", "Show a conversation", s.getConversation)
	handle(at, "DELETE /v1/conversations/{id}", "delete-conversation", "Delete a conversation\nIts computer stays.", s.deleteConversation)
	handle(at, "GET /v1/conversations/{id}/set", "get-set", "Show the set of a conversation as it stands on its computer", s.getSet)
	handle(at, "GET /v1/conversations/{id}/set/explain", "explain-set", "Explain the set of a conversation\nOf each tool the scope, the item and the line that gave it; what is left out, and why.", s.explainSet)
	handle(at, "POST /v1/conversations/{id}/set/refresh", "refresh-set", "Resolve latest and ranges anew\nAnother set of the same items takes the set's place, with a bundle of its own.", s.refreshSet)
	handle(at, "POST /v1/conversations/{id}/exec", "exec-conversation", "Run a command on a conversation's computer\nWith the conversation's set in place, which is installed first where it is not, for half of the command's time at most. The result with its output; or, as application/x-ndjson, progress and output as they come and the result as the last line. A client that leaves kills the command. What the caller should know beside the output is in the notices; failed items are told once, by the first command that ends after them.", s.execConversation, limit(maxTaskBody, "a command"))
	handle(at, "GET /v1/conversations/{id}/ssh", "ssh-conversation", "Open an SSH connection into a conversation's computer\nThe connection is upgraded (Upgrade: enplace-ssh) and then speaks SSH; any user name is taken, without a password.", s.sshConversation, answers("101", "The connection speaks SSH from here on"))
	documentExec[enplace.ConversationResult, enplace.ConversationEvent](s.api, "/v1/conversations/{id}/exec")
}

func (s *Server) computerRoutes(at section) {
	log := answers("200", "The log", "text/plain", "text/event-stream")
	handle(at, "GET /v1/computers", "list-computers", "List computers\nBy id.", s.listComputers)
	handle(at, "GET /v1/computers/{id}", "get-computer", "Show a computer\nWith its sets, item by item.", s.getComputer)
	handle(at, "GET /v1/computers/{id}/errors", "list-computer-errors", "List what could not be installed on a computer\nNewest first.", s.listComputerErrors)
	handle(at, "GET /v1/computers/{id}/log", "get-computer-log", "Read or follow the log of a set's last installation on a computer\nText as it is now, or live with follow. As text/event-stream: an event for each line, with the byte behind it as its id, and at the end one called end with the status.", s.computerLog, log)
	handle(at, "POST /v1/computers/{id}/stop", "stop-computer", "Stop a computer\nFor whoever may run commands there. Its files and tools stay, and the next command starts it. Commands that run are ended, and answer so; what is being installed is redone at the next use. One that is stopped stays so.", s.stopComputer)
	handle(at, "DELETE /v1/computers/{id}", "reset-computer", "Remove a computer with all its files\nThe next command of one of its conversations makes another.", s.resetComputer)
	handle(at, "POST /v1/sets/{hash}/retry", "retry-set", "Try again what failed of a set\nIts bundle, and the set on every computer that the caller may run commands on: at once where the computer runs, else at its next use.", s.retrySet)
	handle(at, "GET /v1/sets/{hash}/bundle", "get-bundle", "Show the bundle of a set\nWith wait, when it is not being built any more or the time is up.", s.getBundle)
	handle(at, "GET /v1/sets/{hash}/log", "get-set-log", "Read or follow the log of a set's bundle\nText as it is now, or live with follow. As text/event-stream: an event for each line, with the byte behind it as its id, and at the end one called end with the bundle's status.", s.setLog, log)
}

func (s *Server) serverRoutes(at section) {
	handle(at, "POST /v1/keys", "create-key", "Make an API key\nIts secret is in this answer and never shown again, so that no Idempotency-Key is taken.", s.createKey, created, secret)
	handle(at, "GET /v1/keys", "list-keys", "List API keys\nWithout their secrets, newest first.", s.listKeys)
	handle(at, "DELETE /v1/keys/{id}", "revoke-key", "Revoke an API key\nAt once and for good; its record stays.", s.revokeKey)
	handle(at, "GET /v1/audit", "list-audit", "List the record of changes\nNewest first. For operators.", s.listAudit)
	handle(at, "GET /v1/whoami", "whoami", "Say whom the key belongs to", s.whoami)
	handle(at, "GET /v1/status", "get-status", "Show what the server runs on", s.status)
	handle(at, "GET /openapi.json", "get-openapi", "Get this document", s.openapi, open, answers("200", "OpenAPI 3.1", "application/json"))
	handle(at, "GET /healthz", "healthz", "Ask whether the server answers", s.healthz, open)
	handle(at, "GET /readyz", "readyz", "Ask whether tasks and builds can run\n503 with the reason until they can.", s.readyz, open)
	metrics := []option{answers("200", "Metrics in Prometheus's format", "text/plain")}
	if s.cfg.OpenMetrics {
		metrics = append(metrics, open)
	}
	handle(at, "GET /metrics", "get-metrics", "Get metrics\nFor operators, unless the server lets everyone read them.", s.scrape, metrics...)
}
