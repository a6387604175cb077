from django.http import HttpResponse
from django.urls import path

from shop.words import similarity


def similar(request, number):
    return HttpResponse(f"{similarity('abcdefghij' * (20 + number), 'hijklmnop' * 20):.3f}\n")


urlpatterns = [path("similar/<int:number>", similar)]
