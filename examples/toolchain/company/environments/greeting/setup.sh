#!/bin/sh
set -eu
printf '#!/bin/sh\necho "a computer of the company"\n' > /usr/local/bin/whose
chmod 755 /usr/local/bin/whose
