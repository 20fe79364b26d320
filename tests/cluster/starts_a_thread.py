"""Makes forking unsafe where it is imported."""

import threading
import time

threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
