#!/bin/sh
set -e
printf '#!/bin/sh\necho hello\n' > /usr/local/bin/greet
chmod +x /usr/local/bin/greet
