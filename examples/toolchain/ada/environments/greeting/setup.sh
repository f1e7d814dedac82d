#!/bin/sh
set -eu
printf '#!/bin/sh\necho "the computer of Ada"\n' > /usr/local/bin/whose
chmod 755 /usr/local/bin/whose
