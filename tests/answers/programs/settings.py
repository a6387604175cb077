DEBUG = True
SECRET_KEY = "x"
ALLOWED_HOSTS = ["*"]
INSTALLED_APPS = ["shop"]
ROOT_URLCONF = "shop.urls"
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "shop.sqlite"}}
DEFAULT_AUTO_FIELD = "django.db.models.AutoField"
USE_TZ = True
