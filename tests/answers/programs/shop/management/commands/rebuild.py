from django.core.management.base import BaseCommand
from django.db import connection

from shop.models import Product
from shop.words import similarity


class Command(BaseCommand):
    def handle(self, **options):
        with connection.schema_editor() as editor:
            editor.create_model(Product)
        Product.objects.bulk_create(Product(name=f"p{i}", words="abcdefghij" * (5 + i % 10)) for i in range(60))
        products = list(Product.objects.all())
        self.stdout.write(f"{sum(similarity(a.words, b.words) for a in products for b in products[:12]):.3f}")
